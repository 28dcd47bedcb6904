package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
)

// Finding is what Verify saw of one filter.
type Finding struct {
	Dir       string
	Spec      engine.Spec
	Kind      kind.Kind // zero where it is not known
	Blocks    int       // of the filter's file that were checked: see Kind.Checked
	Items     uint64    // journal included; see Kind.Estimates
	Segments  int       // of the journal
	Keys      uint64    // in the journal
	TornBytes int64     // of an unfinished record that a crash left: normal
	Damage    []error
	Repaired  bool
	Strange   bool // not a filter's folder, and nothing was checked
}

// Verify checks every file of a data directory that no daemon uses, and changes
// nothing. With repair, a damaged journal is replaced by what is whole of it, and with it a
// damaged state; damaged bit-maps and descriptions are left alone. The error reports what could not be checked;
// damage is in the findings, one per filter, which are passed to each as they are ready.
func Verify(dataDir string, repair bool, each func(Finding)) error {
	if _, err := os.Stat(filepath.Join(dataDir, filtersDir)); err != nil {
		return inDirectory(dataDir, err)
	}
	lock, err := disk.AcquireLock(filepath.Join(dataDir, lockName))
	if err != nil {
		return inDirectory(dataDir, err)
	}
	defer lock.Release()
	all, err := list(dataDir)
	if err != nil {
		return err
	}
	clashes := clashing(all.dirs)
	for _, dir := range all.dirs {
		found, err := verifyHeld(dir, repair)
		if err != nil {
			return err
		}
		if clash := clashes[dir]; clash != nil {
			found.Damage = append(found.Damage, clash)
		}
		each(found)
	}
	for _, path := range all.strange {
		each(Finding{Dir: path, Strange: true})
	}
	return nil
}

// verifyHeld is verifyFilter, but first locks the folder if that is a link.
func verifyHeld(dir string, repair bool) (Finding, error) {
	lock, err := lockLink(dir)
	if err != nil {
		return Finding{Dir: dir, Spec: engine.Spec{Name: filepath.Base(dir)}, Damage: []error{fmt.Errorf("link %s: %w", dir, err)}}, nil
	}
	if lock != nil {
		defer lock.Release()
	}
	return verifyFilter(dir, repair)
}

func verifyFilter(dir string, repair bool) (Finding, error) {
	found := Finding{Dir: dir}
	spec, err := readSpec(dir)
	if err != nil {
		found.Damage = append(found.Damage, err)
		spec = engine.Spec{Name: filepath.Base(dir), Kind: kindByFile(dir)}
	}
	found.Spec = spec
	of, err := kindOf(spec)
	if err != nil {
		found.Damage = append(found.Damage, err)
		return found, nil
	}
	found.Kind = of
	st, stateDamage := readState(dir)
	if len(found.Damage) == 0 {
		if err := st.described(dir); err != nil {
			found.Damage = append(found.Damage, err)
		}
	}
	path := filepath.Join(dir, of.File)
	m, from, err := of.Read(spec, path, timing.SystemClock())
	if err != nil {
		found.Damage = append(found.Damage, err)
		if stateDamage != nil {
			found.Damage = append(found.Damage, stateDamage)
		}
		return found, nil
	}
	defer m.Free()
	found.Blocks = m.Checked()
	reached, err := st.owns(m, path)
	if err != nil {
		found.Damage = append(found.Damage, err)
		return found, nil // the journal would be another filter's
	}
	replayed, err := replay(of, m, from, journal.Reading{Dir: dir, Reached: reached, ReadOnly: true, Salvage: true})
	if err != nil {
		return found, err
	}
	found.Items = m.Stats().Items
	found.Segments, found.Keys, found.TornBytes = replayed.Segments, replayed.Keys, replayed.Torn
	sound := len(found.Damage) == 0 && (stateDamage == nil || errors.Is(stateDamage, errDamaged))
	for _, damage := range replayed.Damage {
		sound = sound && !errors.Is(damage, journal.ErrForeign) // a repair would remove it
	}
	if stateDamage != nil {
		replayed.Damage = append(replayed.Damage, stateDamage)
	}
	found.Damage = append(found.Damage, replayed.Damage...)
	if repair && sound && len(replayed.Damage) > 0 {
		if err := rewrite(dir, of, m, replayed.Next); err != nil {
			return found, fmt.Errorf("repair %s: %w", dir, err)
		}
		found.Repaired = true
	}
	return found, nil
}

// kindByFile guesses the kind of a filter whose description is damaged.
func kindByFile(dir string) string {
	all := kinds.All()
	for _, of := range all {
		if _, err := os.Stat(filepath.Join(dir, of.File)); err == nil {
			return of.Name
		}
	}
	return all[0].Name
}

// rewrite puts all that is in memory into the filter's file, and ends the journal.
func rewrite(dir string, of kind.Kind, m kind.Memory, next uint64) error {
	if err := m.Write(disk.FS{}, filepath.Join(dir, of.File), next); err != nil {
		return err
	}
	j := journal.Open(journal.Options{Dir: dir, Generation: m.Stats().Generation, Mark: markOf(m), Next: next, Width: of.Width})
	return errors.Join(j.Discard(next), j.Close(), writeState(disk.FS{}, dir, m, next))
}
