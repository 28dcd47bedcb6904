package clienttest

import (
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

func testReserve(t *testing.T, c *client.Client) {
	for kind, options := range map[string][]client.CallOption{"exact": nil, "timing": {client.Expire(time.Hour)}} {
		ctx, name := t.Context(), newContractFilter(t, c, "reserves-"+kind, kind)
		if _, err := c.Filter(ctx, name, []string{"seen"}, options...); err != nil {
			t.Fatal(err)
		}
		mine, err := c.Reserve(ctx, name, []string{"a", "b", "a", "seen", "c"}, time.Hour)
		if err != nil || strings.Join(mine.URIList, " ") != "a b c" || mine.Duplicates != 2 || mine.Reserved != 0 || len(mine.Reservation) != 32 {
			t.Fatalf("%s: %+v, %v", kind, mine, err)
		}
		var skipped client.InvalidItems
		other, err := c.Reserve(ctx, name, []string{"", "b", "seen", "d"}, time.Hour, client.SkipInvalid(&skipped))
		if err != nil || strings.Join(other.URIList, " ") != "d" || other.Duplicates != 1 || other.Reserved != 1 || skipped.Invalid != 1 {
			t.Fatalf("%s: %+v, %+v, %v", kind, other, skipped, err)
		}
		if got, err := c.Filter(ctx, name, []string{"a", "d"}, options...); err != nil || len(got) != 0 {
			t.Errorf("%s: reserved items are new: %q, %v", kind, got, err)
		}
		for range 2 { // the second is a repeated call
			got, err := c.Commit(ctx, name, mine.Reservation, []string{"a", "d", "a"}, options...)
			if err != nil || got.Done != 1 || strings.Join(got.Lost, " ") != "d" || got.LostTotal != 1 {
				t.Errorf("%s: commit: %+v, %v", kind, got, err)
			}
			got, err = c.Release(ctx, name, mine.Reservation, []string{"b", "a"})
			if err != nil || got.Done != 1 || strings.Join(got.Lost, " ") != "a" || got.LostTotal != 1 {
				t.Errorf("%s: release: %+v, %v", kind, got, err)
			}
		}
		if got, err := c.Commit(ctx, name, mine.Reservation, nil, options...); err != nil || got.Done != 2 || got.LostTotal != 0 {
			t.Errorf("%s: commit of all: %+v, %v", kind, got, err)
		}
		if got, err := c.Commit(ctx, name, mine.Reservation, []string{}, options...); err != nil || got.Done != 0 || got.LostTotal != 0 {
			t.Errorf("%s: commit of nothing: %+v, %v", kind, got, err)
		}
		if isNew, err := c.Check(ctx, name, []string{"a", "b", "c", "d"}); err != nil || isNew[0] || !isNew[1] || isNew[2] || isNew[3] {
			t.Errorf("%s: new: %v, %v", kind, isNew, err)
		}
		if _, err := c.Forget(ctx, name, []string{"d"}); err != nil {
			t.Error(err)
		}
		if got, err := c.Commit(ctx, name, other.Reservation, nil, options...); err != nil || got.Done != 0 || got.LostTotal != 1 {
			t.Errorf("%s: commit of what was forgotten: %+v, %v", kind, got, err)
		}
		values, err := client.ReserveJSON(ctx, c, name, []any{1, "1", 1.0}, time.Minute)
		if err != nil || len(values.URIList) != 2 {
			t.Fatalf("%s: %+v, %v", kind, values, err)
		}
		if got, err := client.CommitJSON(ctx, c, name, values.Reservation, []any{1}, options...); err != nil || got.Done != 1 {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
		if got, err := client.ReleaseJSON[any](ctx, c, name, values.Reservation, nil); err != nil || got.Done != 1 {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
		none, err := c.Reserve(ctx, name, []string{"seen"}, time.Hour)
		if err != nil || none.Reservation != strings.Repeat("0", 32) {
			t.Errorf("%s: nothing is new: %+v, %v", kind, none, err)
		}
		if got, err := c.Release(ctx, name, none.Reservation, nil); err != nil || got.Done != 0 {
			t.Errorf("%s: release of nothing: %+v, %v", kind, got, err)
		}
		_, err = c.Commit(ctx, name, strings.Repeat("1", 32), nil, options...)
		wantRefusal(t, "an unknown reservation", err, 404, "unknown_reservation")
		for _, lease := range []time.Duration{0, -time.Second, 25 * time.Hour} {
			_, err = c.Reserve(ctx, name, []string{"x"}, lease)
			wantRefusal(t, lease.String(), err, 422, "lease_invalid")
		}
		before, err := c.Reserve(ctx, name, []string{"e"}, time.Hour)
		if err != nil || len(before.URIList) != 1 {
			t.Fatalf("%s: %+v, %v", kind, before, err)
		}
		if _, err := c.ClearFilter(ctx, name); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Reserve(ctx, name, []string{"e", "seen"}, time.Hour); err != nil || len(got.URIList) != 2 {
			t.Errorf("%s: cleared: %+v, %v", kind, got, err)
		}
		_, err = c.Commit(ctx, name, before.Reservation, nil, options...)
		wantRefusal(t, "a reservation from before the filter was cleared", err, 404, "unknown_reservation")
	}
	_, err := c.Reserve(t.Context(), "uri", []string{"a"}, time.Hour)
	wantRefusal(t, "a bloom filter", err, 422, "reserve_not_supported")
}
