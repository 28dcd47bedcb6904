package sqlite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest/victim"
)

// The victim is this test's binary.
const (
	victimDir    = "URIFILTER_DOWNLOAD_VICTIM_DIR"
	victimName   = "URIFILTER_DOWNLOAD_VICTIM_NAME"
	victimShared = "URIFILTER_DOWNLOAD_VICTIM_SHARED"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		s, err := Open(context.Background(), Options{Dir: dir, Inline: inline, Now: downloadtest.NewClock().Now, Shared: os.Getenv(victimShared) != ""})
		if err == nil {
			err = victim.Use(s, os.Getenv(victimName), inline)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestKilledAtAnyMoment kills a process that adds, hands out, leases and settles.
func TestKilledAtAnyMoment(t *testing.T)       { killAtAnyMoment(t, 4) }
func TestSystemKilledAtAnyMoment(t *testing.T) { killAtAnyMoment(t, 20) }

func killAtAnyMoment(t *testing.T, rounds int) {
	t.Parallel()
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	clock := downloadtest.NewClock()
	open := func() download.Store {
		s, err := Open(context.Background(), Options{Dir: dir, Inline: inline, Now: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	downloadtest.Kills(t, rounds, clock, open, func(name string) *exec.Cmd {
		cmd := exec.Command(program)
		cmd.Env = append(os.Environ(), victimDir+"="+dir, victimName+"="+name)
		return cmd
	})
	// No file remains that no row names.
	s := open().(*Store)
	defer s.Close()
	files, err := filepath.Glob(filepath.Join(dir, bodiesName, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Error("no large body was stored: nothing was tried")
	}
	if _, err := s.Sweep(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if named, _, err := s.useOf(context.Background(), filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)); err != nil || !named {
			t.Errorf("%s is left over (%v)", file, err)
		}
	}
}
