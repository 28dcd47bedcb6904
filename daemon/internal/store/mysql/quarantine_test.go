package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// A filter whose table is gone does not keep other filters from being served, by a daemon that
// starts or by one that runs; it is served again when the table is back, and its entry can be put
// away.
func TestQuarantine(t *testing.T) {
	ctx := context.Background()
	server := mysqltest.Start(t)
	c := config(server)
	_, set := opened(t, c)
	other, _ := opened(t, c)
	db := server.Open(c.Database)
	defer db.Close()
	made, err := other.Create(ctx, spec(2, "jobs"), storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	jobs := made.(*Set)
	storetest.Add(t, jobs, storetest.Keys(jobs, 0, 10))
	server.Exec("rename table " + c.Database + "." + jobs.table + " to " + c.Database + ".aside")
	store, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sets, err := store.Load(ctx)
	if err != nil || len(sets) != 1 || sets[spec(1, "pages")] == nil {
		t.Fatalf("%v, %v", sets, err)
	}
	storetest.Add(t, sets[spec(1, "pages")], storetest.Keys(set, 0, 10))
	bad := store.Quarantined()
	if len(bad) != 1 || bad[0].Name != "jobs" || bad[0].ID != 2 {
		t.Fatalf("in quarantine: %+v", bad)
	}
	server.Exec("rename table " + c.Database + ".aside to " + c.Database + "." + jobs.table)
	if change := next(t, store); change.Mended == nil || change.Mended.Where != bad[0].Where {
		t.Fatalf("%+v", change)
	}
	change := next(t, store)
	if change.Set == nil || change.Spec != spec(2, "jobs") {
		t.Fatalf("%+v", change)
	}
	for i, fresh := range storetest.Add(t, change.Set, storetest.Keys(jobs, 0, 10)) {
		if fresh {
			t.Errorf("item %d of the table that is back is new", i)
		}
	}

	// Found by a running daemon, and put away.
	server.Exec("drop table "+c.Database+"."+jobs.table,
		"update "+c.Database+"."+filtersTable+" set items_table = 'urifilter_items_2_none' where name = 'jobs'")
	change = next(t, store)
	if change.Bad == nil || change.Bad.Name != "jobs" {
		t.Fatalf("%+v", change)
	}
	to, err := store.PutAway(ctx, *change.Bad)
	if err != nil || !strings.Contains(to, quarantineTable) || len(store.Quarantined()) != 0 {
		t.Fatalf("%s, %v, left %+v", to, err, store.Quarantined())
	}
	var kept string
	if err := db.QueryRowContext(ctx, "select entry from "+quarantineTable+" where name = 'jobs'").Scan(&kept); err != nil || !strings.Contains(kept, "seed") {
		t.Errorf("%s, %v", kept, err)
	}
	if made, err = store.Create(ctx, spec(2, "jobs"), storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	if fresh := storetest.Add(t, made, storetest.Keys(made, 0, 1)); !fresh[0] {
		t.Error("an item of a new filter is seen")
	}
}

// A filter whose entry cannot be read does not keep other filters from being served, nor does a daemon that
// starts drop its items. A daemon that serves it goes on; another serves it when the entry is mended, or
// puts it away.
func TestEntryThatCannotBeRead(t *testing.T) {
	ctx := context.Background()
	server := mysqltest.Start(t)
	c := config(server)
	serving, _ := opened(t, c)
	made, err := serving.Create(ctx, spec(2, "jobs"), storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	jobs := made.(*Set)
	storetest.Add(t, jobs, storetest.Keys(jobs, 0, 10))
	row := c.Database + "." + filtersTable
	for _, damage := range []string{"entry = concat('[', entry)", "items_table = concat('x', items_table)"} {
		server.Exec("update " + row + " set " + damage + " where name = 'jobs'")
		store, err := Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		sets, err := store.Load(ctx)
		if err != nil || len(sets) != 1 || sets[spec(1, "pages")] == nil {
			t.Fatalf("%s: %v, %v", damage, sets, err)
		}
		bad := store.Quarantined()
		if len(bad) != 1 || bad[0].Name != "jobs" || bad[0].ID != 2 {
			t.Fatalf("%s: in quarantine: %+v", damage, bad)
		}
		if _, err := store.Create(ctx, spec(2, "other"), storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s: another filter with its id: %v", damage, err)
		}
		if err := serving.follow(ctx); err != nil || serving.find("jobs") != jobs {
			t.Errorf("%s: the daemon that serves it: %v", damage, err)
		}
		if there, err := serving.Holds(ctx, jobs.spec); err != nil || !there {
			t.Errorf("%s: is there: %v, %v", damage, there, err)
		}
		server.Exec("update " + row + " set entry = trim(leading '[' from entry), items_table = '" + jobs.table + "' where name = 'jobs'")
		change := next(t, store)
		for ; change.Set == nil; change = next(t, store) {
		}
		for i, fresh := range storetest.Add(t, change.Set, storetest.Keys(jobs, 0, 10)) {
			if fresh {
				t.Errorf("%s: item %d is new once the entry is mended", damage, i)
			}
		}
	}
	server.Exec("update " + row + " set entry = '{' where name = 'jobs'")
	store, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutAway(ctx, store.Quarantined()[0]); err != nil {
		t.Fatal(err)
	}
	if entries, err := readEntries(ctx, store.admin); err != nil || len(entries) != 1 {
		t.Errorf("left: %+v, %v", entries, err)
	}
	if have, err := comments(ctx, store.admin); err != nil || have[jobs.table] == "" {
		t.Errorf("the items of what was put away are gone: %v", err)
	}
}
