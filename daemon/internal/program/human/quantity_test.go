package human

import "testing"

func TestQuantity(t *testing.T) {
	for _, most := range []uint64{0, 1 << 53} { // of items to measure, of parameters of filters
		for text, want := range map[string]uint64{"1": 1, "150M": 150e6, "0.5k": 500, "2G": 2e9, "1e6": 1e6, "3K": 3000, "1024G": 1024e9, "2.01k": 2010, "16.1k": 16_100, "4.035M": 4_035_000, "1.001G": 1_001_000_000} {
			q := Quantity{Max: most}
			if err := q.Set(text); err != nil || q.N != want {
				t.Errorf("%q: got %d, %v; want %d", text, q.N, err, want)
			}
		}
		for _, text := range []string{"", "M", "-1", "0", "1.5", "2.0001k", "1e30", "nan", "inf", "10MB", "10 M", "0x10", "1M M"} {
			q := Quantity{Max: most}
			if err := q.Set(text); err == nil {
				t.Errorf("%q: taken as %d", text, q.N)
			}
		}
	}
}

func TestMostQuantity(t *testing.T) {
	for _, c := range []struct {
		q        Quantity
		text     string
		n        uint64
		complain string
	}{
		{Quantity{}, "1099511627776", 1 << 40, ""},
		{Quantity{}, "1099511627777", 0, "want a whole number of items from 1 to 1099511627776, such as 150M or 150e6"},
		{Quantity{Max: 1 << 53, Want: "a whole number, such as 3"}, "9007199254740992", 1 << 53, ""},
		{Quantity{Max: 1 << 53, Want: "a whole number, such as 3"}, "9007199254740994", 0, "want a whole number, such as 3"},
	} {
		err := c.q.Set(c.text)
		if c.q.N != c.n || (err == nil) != (c.complain == "") || err != nil && err.Error() != c.complain {
			t.Errorf("%s: got %d, %v; want %d, %q", c.text, c.q.N, err, c.n, c.complain)
		}
	}
	if text := (&Quantity{}).String(); text != "" {
		t.Errorf("none: got %q", text)
	}
}
