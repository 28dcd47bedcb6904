package main

import (
	"errors"
	"testing"
)

// What a part leaves running ends with it, whichever way it ends.
func TestStand(t *testing.T) {
	t.Parallel()
	failed := errors.New("no such server")
	for name, c := range map[string]struct {
		part func(s *stand) error
		want string
	}{
		"done":     {func(*stand) error { return nil }, ""},
		"failed":   {func(*stand) error { return failed }, "no such server"},
		"fatal":    {func(s *stand) error { s.Fatal(failed); return nil }, "no such server"},
		"left out": {func(s *stand) error { s.Skip("it is not installed"); return failed }, ""},
	} {
		s, said := &stand{dir: t.TempDir()}, ""
		err := s.measure(func() error {
			s.Cleanup(func() { said += "first" })
			s.Cleanup(func() { said += "last " })
			return c.part(s)
		})
		if said != "last first" || c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: %v, ended %q", name, err, said)
		}
	}
}
