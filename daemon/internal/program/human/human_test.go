package human

import "testing"

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -123: "-123", -1234: "-1,234"} {
		if got := Count(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for share, want := range map[float64]string{0: "0.0 %", 0.25: "25.0 %", 1.5: "150.0 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v: got %q, want %q", share, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 31250000: "29.8 MiB", 468750000: "447.0 MiB", 5 << 40: "5.0 TiB", 5 << 50: "5120.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
