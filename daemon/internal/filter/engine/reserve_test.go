package engine

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{
		1: time.Second, 0.1: 100 * time.Millisecond, 1e-9: time.Millisecond, 1.0001: 1001 * time.Millisecond, 86400: MaxLease,
	} {
		if got, err := Lease(seconds); got != want || err != nil {
			t.Errorf("%v s: %v, %v, want %v", seconds, got, err, want)
		}
	}
	for _, seconds := range []float64{0, -1, math.Copysign(0, -1), 86400.1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got, err := Lease(seconds); err == nil || !strings.Contains(err.Error(), "at most 86400") {
			t.Errorf("%v s: %v, %v, want an error with the bound", seconds, got, err)
		}
	}
}

func TestReservationsAsText(t *testing.T) {
	a, b := NewReservation(), NewReservation()
	if a == b {
		t.Error("two are the same")
	}
	a.Hi >>= 60 // leading zeroes
	if got, ok := ParseReservation(a.String()); got != a || !ok || len(a.String()) != 32 {
		t.Errorf("%v is read as %v, %v", a, got, ok)
	}
	for _, text := range []string{"", "1", a.String()[1:], a.String() + "00", strings.Repeat("g", 32)} {
		if got, ok := ParseReservation(text); ok {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
