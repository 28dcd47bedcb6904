package chores

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The picture of the rooms is that of today's imports.
func TestPictureOfTheRooms(t *testing.T) {
	t.Parallel()
	want, err := Repo{Dir: "../..", Out: os.Stdout}.drawRooms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/rooms.svg")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/rooms.svg is of other imports (%v): run go tool mage rooms", err)
	}
}

func TestFloors(t *testing.T) {
	t.Parallel()
	all, err := floors(map[string]map[string]int{"roof": {"middle": 1, "cellar": 2}, "middle": {"cellar": 1}, "cellar": {}})
	if err != nil || len(all) != 3 || all[0][0] != "cellar" || all[2][0] != "roof" {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := floors(map[string]map[string]int{"a": {"b": 1}, "b": {"a": 1}}); err == nil || !strings.Contains(err.Error(), "a -> b -> a") {
		t.Errorf("a circle: %v", err)
	}
}
