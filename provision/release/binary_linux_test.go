package release

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
)

// A host whose work ends while the program is built for it, as when its connection is lost, takes it away from no other
// host.
func TestBuildThatOneHostBreaksOff(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, lost := context.WithCancel(t.Context())
	b := NewBinaries(func(ctx context.Context, _ string) (Built, error) {
		lost()
		return Built{Path: program}, ctx.Err()
	})
	if _, err := b.For(ctx, runtime.GOARCH); !errors.Is(err, context.Canceled) {
		t.Errorf("the host that was lost: %v", err)
	}
	if got, err := b.For(t.Context(), runtime.GOARCH); err != nil || got.Path != program {
		t.Errorf("another host: %+v, %v", got, err)
	}
}
