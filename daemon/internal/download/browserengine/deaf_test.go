//go:build linux

package browserengine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
)

// deaf starts a process in the place of a browser, which reads and says nothing.
func deaf(t *testing.T) *browser {
	t.Helper()
	program := filepath.Join(t.TempDir(), "deaf")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	p, err := chromium.Start(chromium.Options{Program: program, Browser: program, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{process: p, conn: devtools.New(p.In, p.Out, devtools.Options{MaxMessage: maxMessage, Handle: func(devtools.Event) {}})}
	t.Cleanup(func() {
		if err := b.end(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestDeafBrowser: a browser that reads nothing more when its page is closed is ended, and holds nobody up.
func TestDeafBrowser(t *testing.T) {
	t.Parallel()
	b := deaf(t)
	if err := b.process.In.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.process.In.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) { // until the pipe is full
		t.Fatal(err)
	}
	if err := b.process.In.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	v := &visit{b: b, context: "x"}
	v.requests.Go(func() { v.refuse("", &paused{}, "Aborted") }) // a request that still tells the browser something
	closed := make(chan bool, 1)
	go func() { closed <- v.close() }()
	select {
	case whole := <-closed:
		if whole {
			t.Error("the browser is to be used again")
		}
	case <-time.After(6 * closeIn):
		t.Error("its page is still being closed")
		b.process.Kill()
	}
}

// TestBodiesThatWait: requests that wait for their turn hold no more memory than a page may load.
func TestBodiesThatWait(t *testing.T) {
	t.Parallel()
	v := &visit{}
	var kept []*paused
	for range 2 * MaxLoaded / maxPost {
		for _, size := range []int{maxPost, 8 * maxPost} {
			p := &paused{Type: "Fetch"}
			p.Request.HasPost, p.Request.Post = true, []struct {
				Bytes []byte `json:"bytes"`
			}{{make([]byte, size)}}
			kept = append(kept, p)
			v.boundPost(p)
		}
	}
	held := 0
	for _, p := range kept {
		for _, part := range p.Request.Post {
			held += len(part.Bytes)
		}
	}
	if held > MaxLoaded {
		t.Errorf("%d MiB are held", held>>20)
	}
}
