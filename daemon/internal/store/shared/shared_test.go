package shared

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

func TestQuarantineKnowsEntriesApart(t *testing.T) {
	var q Quarantine
	first, second := engine.Quarantined{ID: 1, Name: "a", Where: "first"}, engine.Quarantined{ID: 2, Name: "a", Where: "second"}
	if _, known := q.Add(first); known {
		t.Error("known before it was added")
	}
	if noted, known := q.Add(engine.Quarantined{Name: "a", Where: "first"}); !known || noted.ID != 1 {
		t.Errorf("%+v, %t, want the first", noted, known)
	}
	if _, known := q.Add(second); known {
		t.Error("another entry of the name is taken for the first")
	}
	if q.Remove(first) {
		t.Error("removed an entry in place of another")
	}
	if all := q.Quarantined(); len(all) != 1 || all[0].Where != "second" {
		t.Errorf("%+v", all)
	}
	feed := engine.NewFeed()
	q.Follow(feed, func(engine.Quarantined) bool { return true })
	if len(q.Quarantined()) != 1 {
		t.Error("what stays was removed")
	}
	q.Follow(feed, func(engine.Quarantined) bool { return false })
	if len(q.Quarantined()) != 0 || q.Remove(second) {
		t.Error("what does not stay is still there")
	}
}

func TestIDsAreGivenOnce(t *testing.T) {
	have := map[string]int{}
	for _, test := range []struct {
		name        string
		least, want int
	}{{"a", 6, 6}, {"b", 6, 7}, {"a", 6, 6}, {"a", 7, 8}, {"c", 100, 100}, {"d", 6, 101}} {
		id, changes := TakeID(have, test.name, test.least)
		if maps.Copy(have, changes); id != test.want || have[test.name] != id {
			t.Errorf("%s from %d: got %d, %v, want %d", test.name, test.least, id, have, test.want)
		}
	}
	for _, id := range []int{5, 200, 200} {
		maps.Copy(have, NoteID(have, id))
	}
	if id, _ := TakeID(have, "e", 6); id != 201 {
		t.Errorf("got %d, want one after what was noted", id)
	}
}

func TestInDoubt(t *testing.T) {
	broken := errors.New("broken")
	if err := InDoubt(broken, 3, "remembered"); !errors.Is(err, engine.ErrInDoubt) || !errors.Is(err, broken) {
		t.Error(err)
	}
	dropped := fmt.Errorf("while it ran: %w", &engine.UnknownFilterError{Ref: "a"})
	for _, err := range []error{InDoubt(broken, 0, "remembered"), InDoubt(dropped, 3, "remembered")} {
		if errors.Is(err, engine.ErrInDoubt) {
			t.Error(err)
		}
	}
	if !IsDamaged(fmt.Errorf("a: %w", Damaged(broken))) || IsDamaged(broken) || !errors.Is(Damaged(broken), broken) {
		t.Error("damaged")
	}
}
