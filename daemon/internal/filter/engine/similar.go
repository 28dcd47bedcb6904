package engine

import (
	"context"
	"errors"
	"fmt"
)

// What filters of a kind may lack, like those in kind.go.
var (
	// ErrComparesNone: documents cannot be compared.
	ErrComparesNone = errors.New("cannot tell which texts are near each other")
	// ErrKeepsTexts: the filter takes documents, not items.
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

// Comparison is the result of a Similar set for a document.
type Comparison struct {
	// New: no earlier document with another id is near. A document that is already
	// remembered counts from its first coming.
	New bool
	// Near lists the near documents: the nearest first, equally near ones by id.
	Near []Nearby
	// More: Near omits some.
	More bool
}

// Nearness says how documents are compared.
type Nearness struct {
	Distance int  // up to which a document is near; from 0 to the distance of the set
	Limit    int  // of Comparison.Near, 1 or more
	Remember bool // otherwise the set does not change
	// Tell takes memory for what is told of a document, in bytes, and reports whether there is any.
	// After a false one Comparison.Near is empty, with More. Nil: there is enough.
	Tell func(bytes int) bool
}

// Similar is a Set of documents that finds which of them are near others. It remembers each id
// with all its different fingerprints. Its Add and Has return a *KindError that wraps
// ErrKeepsTexts.
type Similar interface {
	Growing
	// Fingerprint returns the fingerprint of a text; similar texts have near ones. Not ok: the text
	// is too short to be similar to any. It uses no mutable state, and never waits.
	Fingerprint(text string) (print uint64, ok bool)
	// Distance is the largest distance at which documents can be found.
	Distance() int
	// Near compares the documents, one after the other, with the remembered ones of other ids. With
	// Remember it also compares each with those before it in docs; without, with none of docs. If
	// several callers remember near documents at once, each document is compared with those before
	// it, in one order for all callers; so one of them is new. On a nil error, remembered and found
	// documents are durable as the store's durability setting says; on ErrNoSpace and
	// ErrUnavailable, without ErrInDoubt, nothing was remembered; on any other error documents may
	// be. A repeated call reports the same documents as new, and finds what it found before plus
	// what came meanwhile. IDs have 1 to MaxDocumentID bytes. len(found) == len(docs); without
	// documents it does nothing.
	Near(ctx context.Context, docs []Document, how Nearness, found []Comparison) error
}

const (
	// MaxDocumentID is the largest length of a document's id in bytes.
	MaxDocumentID = 1024
	// MaxNear is the largest number of near documents reported for one. For each fingerprint no
	// more documents are kept: nobody would see the others.
	MaxNear = 100
)

// Similar returns the filter's set as a Similar, or a *KindError.
func (f *Filter) Similar() (Similar, error) { return As[Similar](f.Spec, f.Set, ErrComparesNone) }

// Near is Similar.Near, but obeys the bound on memory.
func (f *Filter) Near(ctx context.Context, docs []Document, how Nearness, found []Comparison) error {
	set, err := f.Similar()
	if err != nil {
		return err
	}
	if how.Remember && len(docs) > 0 {
		more := More{Documents: len(docs)}
		for _, d := range docs {
			more.IDBytes += len(d.ID)
		}
		if err := f.claim(more); err != nil {
			return fmt.Errorf(`filter %s: %w; with "remember": false it can be asked`, f.Name, err)
		}
		defer f.unclaim(more)
	}
	return set.Near(ctx, docs, how, found)
}
