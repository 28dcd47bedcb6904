package redisstore

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
)

// Daemons that share a Redis give each id to one name, and a name one id.
func TestNumbersOfSeveralDaemons(t *testing.T) {
	server := redistest.Start(t)
	const daemons, names = 4, 20
	ids := make([][names]int, daemons)
	var work sync.WaitGroup
	for d := range daemons {
		store, err := Open(context.Background(), config(server.Addr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		work.Go(func() {
			for i := range names {
				n := (i + d*5) % names // not all in step
				id, err := store.TakeID(context.Background(), fmt.Sprint("n", n), 1000)
				if err != nil {
					t.Errorf("daemon %d: %v", d, err)
				}
				ids[d][n] = id
			}
		})
	}
	work.Wait()
	owner := map[int]int{}
	for n, id := range ids[0] {
		if other, taken := owner[id]; taken {
			t.Errorf("names %d and %d have the id %d", n, other, id)
		}
		owner[id] = n
		for d := range ids {
			if ids[d][n] != id {
				t.Errorf("name %d: daemon %d got %d, another %d", n, d, ids[d][n], id)
			}
		}
	}
}
