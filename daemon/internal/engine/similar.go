package engine

import (
	"context"
	"errors"
	"fmt"
)

// What filters of a kind may lack, as those of kind.go.
var (
	// ErrComparesNone: documents cannot be compared.
	ErrComparesNone = errors.New("cannot tell which texts are near each other")
	// ErrKeepsTexts: it is asked about documents, not items.
	ErrKeepsTexts = errors.New("keeps fingerprints of texts, and knows no items")
)

// Document is what a Similar set remembers of a text.
type Document struct {
	ID          string // chosen by the caller
	Fingerprint uint64
}

// Nearby is a document near another one: their fingerprints differ in Distance bits.
type Nearby struct {
	ID       string
	Distance int
}

// Comparison is what a Similar set says of a document.
type Comparison struct {
	// New: of the documents of other ids none is near that came before this one. What is
	// remembered already came when it first did.
	New bool
	// Near are those that are near: the nearest first, of equally far ones by id.
	Near []Nearby
	// More: Near leaves some out.
	More bool
}

// Nearness says how documents are compared.
type Nearness struct {
	Distance int  // up to which a document is near, 0 to that of the set
	Limit    int  // of Comparison.Near, 1 or more
	Remember bool // else the set stays as it is
}

// Similar is a Set of documents, which tells which of them are near others. It remembers each id
// with every fingerprint that came with it, and nothing twice. Its Add and Has return a
// *KindError that wraps ErrKeepsTexts.
type Similar interface {
	Growing
	// Fingerprint is that of a text; similar texts have near ones. Not ok: the text is too short
	// to be similar to any. It looks at nothing that changes, and waits for nobody.
	Fingerprint(text string) (print uint64, ok bool)
	// Distance is up to which documents can be looked for.
	Distance() int
	// Near compares each document with those of other ids that are remembered, one after the
	// other: with Remember also with those before it in docs, without with none of docs. Of
	// documents near each other that several callers remember at once, each is compared with
	// those before it, in one order for all callers; so one of them is new. On a nil error what
	// is remembered, and what was found, is durable as the store's durability setting says; on
	// ErrNoSpace and ErrUnavailable, without ErrInDoubt, nothing was remembered; on any other
	// error documents may be. A call that is repeated calls the same documents new, and finds
	// what it found before, and what came meanwhile. IDs have 1 to MaxDocumentID bytes.
	// len(found) == len(docs); no documents is no work.
	Near(ctx context.Context, docs []Document, how Nearness, found []Comparison) error
}

const (
	// MaxDocumentID is how many bytes the id of a document may have.
	MaxDocumentID = 1024
	// MaxNear is how many near documents are told of one at most. Of documents with one
	// fingerprint no more are kept: nobody would see the others.
	MaxNear = 100
)

// Similar is the filter's set as one, or a *KindError.
func (f *Filter) Similar() (Similar, error) { return As[Similar](f.Spec, f.Set, ErrComparesNone) }

// TakesItems returns a *KindError for a filter that is asked about documents.
func (f *Filter) TakesItems() error {
	if _, texts := f.Set.(Similar); texts {
		return &KindError{Filter: f.Name, Kind: f.Kind, Lacks: ErrKeepsTexts}
	}
	return nil
}

// Near is Similar.Near, with the bound on memory obeyed.
func (f *Filter) Near(ctx context.Context, docs []Document, how Nearness, found []Comparison) error {
	set, err := f.Similar()
	if err != nil {
		return err
	}
	if used := set.Memory(); how.Remember && len(docs) > 0 && f.most > 0 && used >= f.most {
		return fmt.Errorf("filter %s: its documents take %d bytes of memory, and limits.filter_bytes is %d; it takes new ones when that is raised, or after it was cleared; "+
			`with "remember": false it can be asked: %w`, f.Name, used, f.most, ErrFull)
	}
	return set.Near(ctx, docs, how, found)
}
