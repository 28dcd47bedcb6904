package filters

import "testing"

func TestItemCount(t *testing.T) {
	for text, want := range map[string]uint64{"1": 1, "150M": 150e6, "0.5k": 500, "2G": 2e9, "1e6": 1e6, "3K": 3000} {
		var c itemCount
		if err := c.Set(text); err != nil || c.n != want {
			t.Errorf("%q: got %d, %v; want %d", text, c.n, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1", "0", "1.5", "1e30", "nan", "inf", "10MB", "10 M", "0x10", "1M M"} {
		var c itemCount
		if err := c.Set(text); err == nil {
			t.Errorf("%q: taken as %d", text, c.n)
		}
	}
}
