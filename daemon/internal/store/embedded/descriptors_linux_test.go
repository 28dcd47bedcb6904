package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// If connections have taken all descriptors of the process, batches continue from the reserve,
// then are refused with nothing remembered, and continue once descriptors are free again.
// Limits apply to a whole process, so the test runs in another one.
func TestNoDescriptorsLeft(t *testing.T) {
	const child = "URIFILTER_TEST_NO_DESCRIPTORS"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNoDescriptorsLeft$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "refused batches") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	store, err := Open(options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	var sets []engine.Set // each has a journal with files of its own
	for i := range 30 {
		spec := engine.Spec{ID: i + 1, Name: fmt.Sprint("f", i), Kind: "timing", Params: configs.Timing{Expire: time.Hour}}
		set, err := store.Create(ctx, spec, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	fresh := make([]bool, 1000)
	accepted := 0
	for ; accepted < len(sets); accepted++ {
		for f, err := os.Open(os.DevNull); err == nil; f, err = os.Open(os.DevNull) {
			taken = append(taken, f)
		}
		if _, err = sets[accepted].Add(ctx, storetest.Keys(sets[accepted], 0, len(fresh)), fresh); err != nil {
			break
		}
	}
	if !errors.Is(err, engine.ErrUnavailable) || accepted < 2 {
		t.Fatalf("filter %d: %v, want ErrUnavailable, and not at once", accepted, err)
	}
	last := sets[accepted]
	if _, err := last.Add(ctx, storetest.Keys(last, 0, len(fresh)), fresh); !errors.Is(err, engine.ErrUnavailable) {
		t.Fatalf("again: %v, want ErrUnavailable", err)
	}
	if err := store.Ready(ctx); !errors.Is(err, engine.ErrUnavailable) {
		t.Fatalf("Ready: %v, want ErrUnavailable", err)
	}
	store.checkpointDue()
	for _, k := range store.all() { // a checkpoint is postponed, or made from the reserve
		if err := k.checkpoint(); err != nil && !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("checkpoint: %v, want ErrUnavailable", err)
		}
	}
	for _, f := range taken {
		f.Close()
	}
	deadline := time.Now().Add(2 * time.Minute)
	for err = store.Ready(ctx); err != nil && time.Now().Before(deadline); err = store.Ready(ctx) {
		time.Sleep(10 * time.Millisecond) // the store assumes for a second that nothing has changed
	}
	for i, set := range sets[:accepted+1] {
		n, err := set.Add(ctx, storetest.Keys(set, 0, len(fresh)), fresh)
		if err != nil {
			t.Fatalf("with descriptors again: %v", err)
		}
		if want := len(fresh); i < accepted && n != 0 || i == accepted && n != want {
			t.Fatalf("filter %d of %d: %d items are new", i, accepted, n)
		}
	}
	fmt.Printf("refused batches, after %d filters\n", accepted)
}
