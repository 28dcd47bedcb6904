package sqlite

import (
	"context"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest"
)

// inline keeps the large bodies of tests small.
const inline = 4096

func TestConformance(t *testing.T)       { conformance(t, 300, 5) }
func TestNoRaceConformance(t *testing.T) { conformance(t, 3000, 1) }

func conformance(t *testing.T, steps, part int) {
	t.Parallel()
	downloadtest.Run(t, downloadtest.Options{Steps: steps, Part: part, LargeBody: inline, New: func(t *testing.T, clock *downloadtest.Clock) func() download.Store {
		dir := t.TempDir()
		return func() download.Store {
			s, err := Open(context.Background(), Options{Dir: dir, Now: clock.Now, Inline: inline})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}})
}
