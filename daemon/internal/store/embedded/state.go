package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// The file state of a filter's folder says what belongs together there, so that it is noticed
// when one of the other files is lost, old, or another filter's. It is written when the filter is
// made, at each start that finds more than it says, and at a clean stop. All integers are
// little-endian:
//
//	offset  size  field
//	     0     8  magic "URISTATE"
//	     8     4  version, 1
//	    12     4  CRC-32C of filter.json
//	    16     8  generation of the filter
//	    24     8  mark of the filter: see markOf
//	    32     8  reached: the journal segments before this number were made, and are sealed
//	    40    20  zero
//	    60     4  CRC-32C of bytes 0 to 59
//
// What it says of the journal is a lower bound, because segments that are begun after it was
// written are not in it. A crash between a change and the state that records it leaves an older
// state, which is still true: segments are never unmade, and of a filter that was cleared since,
// whose generation is higher, it says nothing.
type state struct {
	description uint32
	generation  uint64
	mark        uint64
	reached     uint64
}

const (
	stateName    = "state"
	stateVersion = 1
	stateSize    = 64
)

// errDamaged is wrapped by errors that mean that files do not belong together, or not any more.
var errDamaged = errors.New("damaged")

var stateMagic = [8]byte{'U', 'R', 'I', 'S', 'T', 'A', 'T', 'E'}

// markOf tells filters apart without telling their seed, which is secret and which each has of its
// own: the first 8 bytes of the seed's SHA-256, never 0.
func markOf(m kind.Memory) uint64 {
	le := binary.LittleEndian
	sum := sha256.Sum256(le.AppendUint64(nil, m.Seed()))
	return max(1, le.Uint64(sum[:]))
}

func (st state) encode() []byte {
	b := make([]byte, stateSize)
	le := binary.LittleEndian
	copy(b, stateMagic[:])
	le.PutUint32(b[8:], stateVersion)
	le.PutUint32(b[12:], st.description)
	le.PutUint64(b[16:], st.generation)
	le.PutUint64(b[24:], st.mark)
	le.PutUint64(b[32:], st.reached)
	le.PutUint32(b[60:], bloom.Checksum(b[:60]))
	return b
}

func decodeState(b []byte) (state, error) {
	le := binary.LittleEndian
	if len(b) != stateSize || !bytes.Equal(b[:8], stateMagic[:]) || bloom.Checksum(b[:60]) != le.Uint32(b[60:]) {
		return state{}, fmt.Errorf("%w: it does not match its checksum", errDamaged)
	}
	if v := le.Uint32(b[8:]); v != stateVersion {
		return state{}, fmt.Errorf("state of format %d: this version reads format %d; use a newer urifilter", v, stateVersion)
	}
	return state{
		description: le.Uint32(b[12:]), generation: le.Uint64(b[16:]),
		mark: le.Uint64(b[24:]), reached: le.Uint64(b[32:]),
	}, nil
}

// readState returns the zero state if there is none: the folder is of an older version.
func readState(dir string) (state, error) {
	path := filepath.Join(dir, stateName)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	st, err := decodeState(b)
	if err != nil {
		return state{}, fmt.Errorf("%s: %w", path, err)
	}
	return st, nil
}

// none tells whether the folder has no state.
func (st state) none() bool { return st.mark == 0 }

// described checks the description of the folder against its state.
func (st state) described(dir string) error {
	path := filepath.Join(dir, specName)
	text, err := os.ReadFile(path)
	if err != nil || st.none() || bloom.Checksum(text) == st.description {
		return err
	}
	return fmt.Errorf("%s: %w: it was changed since the filter was made", path, errDamaged)
}

// owns checks the filter's file, as read into m, against the state. It returns the journal segment
// that the journal must have reached; 0: nothing is known.
func (st state) owns(m kind.Memory, path string) (reached uint64, err error) {
	generation := m.Stats().Generation
	switch {
	case st.none(), generation > st.generation:
		return 0, nil
	case generation < st.generation:
		return 0, fmt.Errorf("%s: %w: it is of generation %d, the filter of %d", path, errDamaged, generation, st.generation)
	case markOf(m) != st.mark:
		return 0, fmt.Errorf("%s: %w: it is another filter's", path, errDamaged)
	}
	return st.reached, nil
}

// stateOf is the state of a folder with that description.
func stateOf(description []byte, m kind.Memory, reached uint64) state {
	return state{description: bloom.Checksum(description), generation: m.Stats().Generation, mark: markOf(m), reached: reached}
}

// writeState records that the journal has reached a segment. It does nothing if that is known.
func writeState(fs disk.FS, dir string, m kind.Memory, reached uint64) error {
	text, err := os.ReadFile(filepath.Join(dir, specName))
	if err != nil {
		return err
	}
	now := stateOf(text, m, reached)
	if before, err := readState(dir); err == nil && before == now {
		return nil
	}
	return now.write(fs, dir)
}

func (st state) write(fs disk.FS, dir string) error {
	return fs.WriteFile("state", filepath.Join(dir, stateName), func(f *disk.File) error {
		return f.WriteAt("state-write", st.encode(), 0)
	})
}
