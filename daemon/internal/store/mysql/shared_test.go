package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// next returns the next change that a store reports.
func next(t *testing.T, s *Store) (change engine.Change) {
	t.Helper()
	testserver.Await(t, "a change", func() bool {
		select {
		case change = <-s.Changes():
			return true
		default:
			return false
		}
	})
	return change
}

// A daemon is told what the other one creates, clears and drops; even before that, a set that is
// gone is reported as gone at once.
func TestFollows(t *testing.T) {
	ctx := context.Background()
	c := config(mysqltest.Start(t))
	one, _ := opened(t, c)
	two, _ := opened(t, c) // finds the filter
	made, err := one.Create(ctx, spec(2, "jobs"), storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	change := next(t, two)
	if change.Spec != spec(2, "jobs") || change.Set == nil || change.Gone != nil {
		t.Fatalf("made: %+v", change)
	}
	theirs := change.Set
	storetest.Add(t, made, storetest.Keys(made, 0, 10))
	if got := slices.Contains(storetest.Add(t, theirs, storetest.Keys(theirs, 0, 10)), true); got {
		t.Error("an item is new for both")
	}
	b := storetest.Identity()
	b.Generation = 2
	if err := one.Clear(ctx, spec(2, "jobs"), b, func(set engine.Set) { made = set }); err != nil {
		t.Fatal(err)
	}
	var unknown *engine.UnknownFilterError
	if _, err := theirs.Add(ctx, make([]bloom.Hash, 1), make([]bool, 1)); !errors.As(err, &unknown) {
		t.Errorf("Add to what another daemon has cleared: %v", err)
	}
	if change = next(t, two); change.Set == nil || change.Gone != theirs || change.Set.Stats().Generation != 2 {
		t.Fatalf("cleared: %+v", change)
	}
	theirs = change.Set
	if got := slices.Contains(storetest.Add(t, theirs, storetest.Keys(theirs, 0, 10)), false); got {
		t.Error("an item is seen after the clear")
	}
	if err := one.Drop(ctx, spec(2, "jobs")); err != nil {
		t.Fatal(err)
	}
	if there, err := two.Holds(ctx, spec(2, "jobs")); there || err != nil {
		t.Errorf("after the drop: held %v, %v", there, err)
	}
	if change = next(t, two); change.Set != nil || change.Gone != theirs {
		t.Fatalf("dropped: %+v", change)
	}
	if err := theirs.Has(ctx, make([]bloom.Hash, 1), make([]bool, 1)); !errors.As(err, &unknown) {
		t.Errorf("Has of what another daemon has dropped: %v", err)
	}
	if _, err := two.Create(ctx, spec(1, "other"), storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("an id that is taken: %v", err)
	}
}

// A filter is dropped as it is in the database, even if this daemon has not followed yet what another
// one has made of it.
func TestDropOfWhatAnotherDaemonHasChanged(t *testing.T) {
	ctx := context.Background()
	c := config(mysqltest.Start(t))
	one, _ := opened(t, c)
	two, _ := opened(t, c)
	create := func(s engine.Spec) {
		t.Helper()
		if _, err := one.Create(ctx, s, storetest.Identity()); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(by *Store, s engine.Spec) {
		t.Helper()
		if err := by.Drop(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	for i, change := range []func(engine.Spec){
		func(s engine.Spec) {
			if err := one.Clear(ctx, s, storetest.Identity(), func(engine.Set) {}); err != nil {
				t.Fatal(err)
			}
		},
		func(s engine.Spec) { drop(one, s); create(s) },
	} {
		s := spec(10+i, "changed")
		create(s)
		if err := two.follow(ctx); err != nil {
			t.Fatal(err)
		}
		change(s)
		drop(two, s)
		if there, err := two.Holds(ctx, s); there || err != nil {
			t.Errorf("case %d: held %v after the drop, %v", i, there, err)
		}
	}
	s := spec(20, "changed")
	create(s)
	if err := two.follow(ctx); err != nil {
		t.Fatal(err)
	}
	drop(one, s)
	other := spec(21, "changed")
	create(other)
	for _, follow := range []func(context.Context) error{func(context.Context) error { return nil }, two.follow} {
		if err := follow(ctx); err != nil {
			t.Fatal(err)
		}
		if err := two.Drop(ctx, s); !errors.Is(err, engine.ErrConflict) { // its engine may still know s
			t.Errorf("drop of a filter in whose place is another one: %v", err)
		}
	}
	if there, err := two.Holds(ctx, other); !there || err != nil {
		t.Errorf("the other one: held %v, %v", there, err)
	}
}

// A drop that breaks off anywhere, as when its daemon is killed, has dropped nothing, or a filter that is
// made again gets another id; and what is left of it is gone after the next start.
func TestDropThatBreaksOff(t *testing.T) {
	ctx := context.Background()
	server := mysqltest.Start(t)
	c := config(server)
	db := server.Open(c.Database)
	defer db.Close()
	for bytes := 0; ; bytes++ {
		name := fmt.Sprint("jobs", bytes)
		link := testserver.NewCutter(t, c.Addr)
		through := c
		through.Addr = link.Addr
		store, err := Open(ctx, through)
		if err != nil {
			t.Fatal(err)
		}
		id, err := store.TakeID(ctx, name, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Create(ctx, spec(id, name), storetest.Identity()); err != nil {
			t.Fatal(err)
		}
		link.Cut(bytes * 11)
		dropped := store.Drop(ctx, spec(id, name)) == nil
		_ = store.Close()
		next, set := opened(t, c)
		have, err := comments(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		for table := range have {
			if held, _ := next.Holds(ctx, spec(id, name)); !held && strings.HasPrefix(table, itemsPrefix) && table != set.table {
				t.Errorf("cut after %d bytes: the table %s is left", bytes*11, table)
			}
		}
		if held, err := next.Holds(ctx, spec(id, name)); err != nil || held && dropped {
			t.Errorf("cut after %d bytes: held %v, %v", bytes*11, held, err)
		} else if held {
			if err := next.Drop(ctx, spec(id, name)); err != nil {
				t.Error(err)
			}
		}
		if again, err := next.TakeID(ctx, name, 1000); err != nil || again == id {
			t.Errorf("cut after %d bytes: the next one has the id %d, as the one that was dropped; %v", bytes*11, again, err)
		}
		if _ = next.Close(); dropped {
			break
		}
	}
}

// When the callers of two daemons add and forget the same items, the additions minus the removals
// are the items that are left.
func TestForgetByTwo(t *testing.T) {
	const callers, rounds, n = 8, 30, 300
	c := config(mysqltest.Start(t))
	one, a := opened(t, c)
	_, b := opened(t, c)
	small(one, 50) // some of them in transactions of several statements
	var added, forgotten atomic.Int64
	var work sync.WaitGroup
	for caller := range callers {
		work.Go(func() {
			set := []*Set{a, b}[caller%2]
			for round := range rounds {
				keys, fresh := storetest.Keys(set, round%3*100, n), make([]bool, n)
				got, err := set.Add(context.Background(), keys, fresh)
				if err != nil {
					t.Error(err)
				}
				added.Add(int64(got))
				if got, err = set.Forget(context.Background(), keys[:n/2]); err != nil {
					t.Error(err)
				}
				forgotten.Add(int64(got))
			}
		})
	}
	work.Wait()
	fresh := make([]bool, 2*n)
	if err := a.Has(context.Background(), storetest.Keys(a, 0, 2*n), fresh); err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	for _, is := range fresh {
		if !is {
			left++
		}
	}
	if added.Load()-forgotten.Load() != left || left == 0 {
		t.Errorf("%d were new, %d forgotten, %d are left", added.Load(), forgotten.Load(), left)
	}
}

// Tables that a change has left behind are dropped; those of other programs stay. A filter whose
// table is gone, or belongs to another program, is reported by its name.
func TestTables(t *testing.T) {
	ctx := context.Background()
	server := mysqltest.Start(t)
	c := config(server)
	_, set := opened(t, c)
	db := server.Open(c.Database)
	defer db.Close()
	server.Exec("create table "+c.Database+".urifilter_items_9_left (a int) comment '"+itemsComment+"'",
		"create table "+c.Database+".urifilter_items_mine (a int)", "create table "+c.Database+".mine (a int)")
	reload := func() error {
		store, err := Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Load(ctx)
		return errors.Join(err, store.Close())
	}
	if err := reload(); err != nil {
		t.Fatal(err)
	}
	have, err := comments(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	if _, left := have["urifilter_items_9_left"]; left {
		t.Error("a table that no filter has is left")
	}
	if _, there := have["urifilter_items_mine"]; !there {
		t.Error("a table of another program is gone")
	}
	server.Exec("alter table " + c.Database + "." + set.table + " comment 'not yours'")
	wantBad := func(wants ...string) {
		t.Helper()
		store, err := Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if sets, err := store.Load(ctx); err != nil || len(sets) != 0 {
			t.Fatalf("%v, %v", sets, err)
		}
		bad := store.Quarantined()
		if len(bad) != 1 || bad[0].Name != "pages" || bad[0].ID != 1 || !strings.Contains(bad[0].Where, set.table) {
			t.Fatalf("in quarantine: %+v", bad)
		}
		wantError(t, bad[0].Cause, wants...)
	}
	wantBad("table "+set.table+" is of another program", "hint: rename that table")
	server.Exec("drop table " + c.Database + "." + set.table)
	_, err = set.Add(ctx, make([]bloom.Hash, 1), make([]bool, 1))
	if wantError(t, err, "filter pages: its table is gone", "hint: bring it back"); !errors.Is(err, engine.ErrUnavailable) {
		t.Error(err)
	}
	wantBad("its table "+set.table+" is gone", "hint: bring it back")
	server.Exec("update " + c.Database + ".urifilter_filters set entry = '{}'")
	wantBad("table urifilter_filters, name pages: ", "hint: it was written by another program")
}

// A daemon that is never idle counts the items of others, too, and once it is idle it counts exactly.
func TestBusyDaemonCountsOthersItems(t *testing.T) {
	t.Parallel()
	c := config(mysqltest.Start(t))
	_, mine := opened(t, c)
	_, theirs := opened(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var added atomic.Int64
	for from := range 3 {
		callers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				keys := storetest.Keys(mine, (from+1)<<20+10*i, 10)
				n, err := mine.Add(context.Background(), keys, make([]bool, len(keys)))
				if err != nil {
					t.Error(err)
					return
				}
				added.Add(int64(n))
			}
		})
	}
	testserver.Await(t, "the first items", func() bool { return added.Load() > 0 })
	storetest.Add(t, theirs, storetest.Keys(theirs, 0, 5000))
	before := added.Load()
	if err := mine.recount(ctx); err != nil {
		t.Error(err)
	}
	if got := int64(mine.Stats().Items); got < before+5000 {
		t.Errorf("%d items, want %d at least", got, before+5000)
	}
	cancel()
	callers.Wait()
	testserver.Await(t, "the exact count", func() bool {
		if err := mine.recount(t.Context()); err != nil {
			t.Fatal(err)
		}
		return int64(mine.Stats().Items) == added.Load()+5000
	})
}
