package main

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// TestClientVectors sends every value of the vectors that Go, Python and the daemon share, both
// verbatim and as the Go client writes it. Both must be the same item, a string or not as the
// vector says, and invalid values must be refused.
func TestClientVectors(t *testing.T) {
	data, err := os.ReadFile("../../client/testdata/json_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, JSON, Canonical string
		String                bool
		ErrorCode             string `json:"error_code"`
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	p := processtest.Start(t, t.TempDir(), nil)
	c, err := client.New(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	type item struct {
		text     string
		isString bool
	}
	seen := map[item]bool{}
	for _, v := range vectors {
		raw, err := client.FilterJSON(t.Context(), c, "uri", []verbatim{verbatim(v.JSON)})
		if v.ErrorCode != "" {
			var e *client.Error
			if !errors.As(err, &e) && !errors.As(err, new(*json.MarshalerError)) || e != nil && e.ErrorCode != v.ErrorCode {
				t.Errorf("%s: got %v, want %s", v.Name, err, v.ErrorCode)
			}
			continue
		}
		is := item{v.Canonical, v.String}
		if want := !seen[is]; err != nil || (len(raw) == 1) != want {
			t.Errorf("%s, as it stands: got %d new, %v; want new %t", v.Name, len(raw), err, want)
		}
		seen[is] = true
		var value any
		if err := json.Unmarshal([]byte(v.JSON), &value); err != nil {
			t.Fatal(err)
		}
		if again, err := client.FilterJSON(t.Context(), c, "uri", []any{value}); err != nil || len(again) != 0 {
			t.Errorf("%s, as the client writes it: got %d new, %v", v.Name, len(again), err)
		}
		if v.String {
			if again, err := c.Filter(t.Context(), "uri", []string{v.Canonical}); err != nil || len(again) != 0 {
				t.Errorf("%s, as a string: got %d new, %v", v.Name, len(again), err)
			}
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d different items", len(seen))
	}
}

// verbatim is JSON that the encoder does not change.
type verbatim string

func (v verbatim) MarshalJSON() ([]byte, error) { return []byte(v), nil }

func (v *verbatim) UnmarshalJSON(b []byte) error {
	*v = verbatim(b)
	return nil
}
