package budget

import (
	"fmt"
	"net/netip"
	"testing"
)

// However many holders take all that they get, in calls of one each, the next one finds room.
func TestSharedLeavesRoomForTheNext(t *testing.T) {
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	for name, holder := range map[string]func(i int) Holder{
		"tokens":                      func(i int) Holder { return Holder{Token: fmt.Sprint(i)} },
		"addresses":                   func(i int) Holder { return Holder{Address: address(i)} },
		"addresses of one token":      func(i int) Holder { return Holder{Token: fmt.Sprint(i / 2), Address: address(i)} },
		"tokens at one address":       func(i int) Holder { return Holder{Token: fmt.Sprint(i), Address: address(i / 2)} },
		"tokens with an address each": func(i int) Holder { return Holder{Token: fmt.Sprint(i), Address: address(i)} },
	} {
		b := NewShared(1000)
		for i := range 3 {
			took := 0
			for b.Take(holder(2*i), 1, 0) {
				took++
			}
			if want := []int{750, 187, 47}[i]; took != want {
				t.Errorf("%s: number %d took %d, want %d", name, i, took, want)
			}
			if i == 0 && b.Take(Holder{Token: "0", Address: address(0)}, 1, 0) {
				t.Errorf("%s: there was more", name)
			}
		}
	}
}

// What fits the limit can be had in one call, in several steps, and those who are not told apart
// can have all of it.
func TestSharedHasNoShareForOne(t *testing.T) {
	b, h := NewShared(10), Holder{Token: "a"}
	if !b.Take(h, 6, 0) || !b.Take(h, 4, 6) || b.Take(h, 1, 10) {
		t.Error("one call does not get the limit")
	}
	b.Give(h, 10)
	for range 10 {
		if !b.Take(Holder{}, 1, 0) {
			t.Fatal("nobody in particular does not get the limit")
		}
	}
	if b.Give(Holder{}, 10); b.Used() != 0 || len(b.by) != 0 {
		t.Errorf("left: %d, %v", b.Used(), b.by)
	}
}
