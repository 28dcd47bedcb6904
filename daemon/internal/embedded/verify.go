package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/journal"
)

// Finding is what Verify saw of one filter.
type Finding struct {
	Dir       string
	Spec      engine.Spec
	Stripes   int    // checked in the bit-map file
	Items     uint64 // estimate, journal included
	Segments  int    // of the journal
	Keys      uint64 // in the journal
	TornBytes int64  // of an unfinished record that a crash left: normal
	Damage    []error
	Repaired  bool
}

// Verify checks every file of a data directory that no daemon uses, and changes
// nothing. With repair, a damaged journal is replaced by what is whole of it; damaged
// bit-maps and descriptions are left alone. The error is for what could not be looked
// at; damage is in the findings, one for each filter, passed to each as it is ready.
func Verify(dataDir string, repair bool, each func(Finding)) error {
	if _, err := os.Stat(filepath.Join(dataDir, filtersDir)); err != nil {
		return fmt.Errorf("data directory %s: %w", dataDir, err)
	}
	lock, err := durable.AcquireLock(filepath.Join(dataDir, "lock"))
	if err != nil {
		return fmt.Errorf("data directory %s: %w", dataDir, err)
	}
	defer lock.Release()
	dirs, _, err := list(dataDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		found, err := verifyFilter(dir, repair)
		if err != nil {
			return err
		}
		each(found)
	}
	return nil
}

func verifyFilter(dir string, repair bool) (Finding, error) {
	found := Finding{Dir: dir}
	spec, err := readSpec(dir)
	if err != nil {
		found.Damage = append(found.Damage, err)
		spec = engine.Spec{Name: filepath.Base(dir)}
	}
	found.Spec = spec
	bits, from, err := readBitmap(filepath.Join(dir, bitmapName))
	if err != nil {
		found.Damage = append(found.Damage, err)
		return found, nil
	}
	defer bits.Close()
	found.Stripes = bits.Header().Stripes()
	replayed, err := journal.Replay(journal.Reading{
		Dir: dir, Generation: bits.Header().Generation, From: from, Apply: applyTo(bits), ReadOnly: true, Salvage: true,
	})
	if err != nil {
		return found, err
	}
	found.Segments, found.Keys, found.TornBytes = replayed.Segments, replayed.Keys, replayed.Torn
	found.Items = bits.Fill().Items
	sound := len(found.Damage) == 0
	found.Damage = append(found.Damage, replayed.Damage...)
	if repair && sound && len(replayed.Damage) > 0 {
		if err := rewrite(dir, bits, replayed.Next); err != nil {
			return found, fmt.Errorf("repair %s: %w", dir, err)
		}
		found.Repaired = true
	}
	return found, nil
}

// rewrite puts all that is in bits into the bit-map file, and ends the journal.
func rewrite(dir string, bits *bloom.Map, next uint64) error {
	if err := writeBitmap(durable.FS{}, filepath.Join(dir, bitmapName), bits, next); err != nil {
		return err
	}
	j := journal.Open(journal.Options{Dir: dir, Generation: bits.Header().Generation, Next: next})
	return errors.Join(j.Discard(next), j.Close())
}
