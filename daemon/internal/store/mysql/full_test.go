package mysql

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// A MariaDB whose tables have no space takes no new items, and says so; all else goes on: what is known is answered, items
// are forgotten and given back, and a drop makes room. Its undo log has space: without, the server changes nothing at all.
func TestFullMariaDB(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := mysqltest.Start(t, "--innodb-file-per-table=0", "--innodb-undo-tablespaces=2", "--innodb-data-file-path=ibdata1:12M:autoextend:max:20M")
	c := config(server)
	store, set := opened(t, c)
	other, _ := opened(t, c)
	large := engine.Spec{ID: 100, Name: "large", Kind: "exact", Params: configs.Exact{Store: Name}}
	ballast, err := store.Create(ctx, large, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	storetest.Add(t, set, storetest.Keys(set, 0, 10))
	held := engine.NewReservation()
	if _, err := set.Reserve(ctx, held, storetest.Keys(set, 50, 2), time.Hour, make([]bool, 2)); err != nil {
		t.Fatal(err)
	}
	// fill adds new items, fewer at once when there is no room for more, until not one goes in.
	fill := func(s engine.Set, from int) {
		t.Helper()
		for n := 2000; n > 0; n /= 10 {
			for {
				_, err := s.Add(ctx, storetest.Keys(s, from, n), make([]bool, n))
				if errors.Is(err, engine.ErrNoSpace) && !errors.Is(err, engine.ErrInDoubt) {
					break
				}
				if err != nil {
					t.Fatalf("%d new items from %d on: got %v, want %v", n, from, err, engine.ErrNoSpace)
				}
				from += n
			}
		}
		t.Logf("full with %d", from)
	}
	fill(ballast, 0)
	fill(set, 100)
	// Nor has the table room whose changes a call waits for that has only read.
	db := server.Open(c.Database)
	defer db.Close()
	var full error
	for i := 0; full == nil; i++ {
		_, full = db.ExecContext(ctx, "insert into "+reservedTable+" (batch, k, state) values (1, ?, 0)", i)
	}
	if !isNoSpace(full) {
		t.Fatal(full)
	}

	fresh := make([]bool, 10)
	if n, err := set.Add(ctx, storetest.Keys(set, 0, 10), fresh); n != 0 || err != nil {
		t.Errorf("known items: %d new, %v", n, err)
	}
	if err := set.Has(ctx, storetest.Keys(set, 5, 10), fresh); err != nil || fresh[0] || !fresh[9] {
		t.Errorf("check: %v, %v", fresh, err)
	}
	if s, err := set.Release(ctx, held, storetest.Keys(set, 50, 1), make([]bool, 1)); s.Done != 1 || err != nil {
		t.Errorf("release: %+v, %v", s, err)
	}
	if s, err := set.Commit(ctx, held, storetest.Keys(set, 51, 1), 0, make([]bool, 1)); s.Done != 1 || err != nil {
		t.Errorf("commit: %+v, %v", s, err)
	}
	if n, err := set.Forget(ctx, storetest.Keys(set, 0, 2)); n != 2 || err != nil {
		t.Errorf("forget: %d, %v", n, err)
	}
	for _, s := range []*Store{store, other} {
		if err := s.Ready(ctx); err != nil {
			t.Error(err)
		}
	}

	if err := store.Drop(ctx, large); err != nil {
		t.Fatalf("a filter is dropped: %v", err)
	}
	// The server has the room a moment after it has dropped the table.
	for began := time.Now(); ; {
		n, err := set.Add(ctx, storetest.Keys(set, 1_000_000, 2000), make([]bool, 2000))
		if n == 2000 && err == nil {
			t.Logf("room after %v", time.Since(began))
			break
		}
		if !errors.Is(err, engine.ErrNoSpace) || time.Since(began) > time.Minute {
			t.Fatalf("after a drop: %d new, %v", n, err)
		}
	}
}
