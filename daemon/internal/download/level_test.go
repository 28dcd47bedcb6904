package download

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLevel(t *testing.T) {
	t.Parallel()
	for range 2000 {
		have := make([]int, rand.IntN(8))
		for i := range have {
			have[i] = rand.IntN(6)
		}
		n := rand.IntN(30)
		want, now := make([]int, len(have)), slices.Clone(have)
		for range n { // one place after the other
			if len(now) > 0 {
				i := slices.Index(now, slices.Min(now))
				now[i]++
				want[i]++
			}
		}
		if got := Level(have, n); !slices.Equal(got, want) {
			t.Fatalf("%d places for %v: %v, want %v", n, have, got, want)
		}
	}
}

// A host has one queue, however its URI is spelled.
func TestQueueOf(t *testing.T) {
	t.Parallel()
	a := QueueOf("http://A.example/x")
	for _, uri := range []string{"https://a.example./y?z", "http://a.example:8080/"} {
		if QueueOf(uri) != a {
			t.Errorf("%s has another queue", uri)
		}
	}
	for _, uri := range []string{"http://b.example/", "parse:http://a.example/x", "generate:v1"} {
		if QueueOf(uri) == a {
			t.Errorf("%s has the same queue", uri)
		}
	}
	if QueueOf("parse:http://a.example/") != QueueOf("parse:http://b.example/") {
		t.Error("runs of parse have several queues")
	}
}
