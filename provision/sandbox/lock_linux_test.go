package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLockOfPrograms has a program that was started under a lock go on after the process that
// started it has released the lock, as a killed process does.
func TestLockOfPrograms(t *testing.T) {
	dir, pipes := t.TempDir(), t.TempDir()
	// One pipe for each word: in a shared pipe the program might meet the writer of the previous
	// word.
	giveBack, end := filepath.Join(pipes, "give back"), filepath.Join(pipes, "end")
	for _, pipe := range []string{giveBack, end} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := lockFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	// Like boot.sh, it is nobody's child, and releases the lock when it is told to.
	cmd := command(holding(t.Context(), lock), "setsid", "--fork", "/bin/sh", "-c", `read line <"$1"; exec 3<&-; read line <"$2"`, "sh", giveBack, end)
	if err := runCommand(cmd); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	free := func() bool {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		locked, err := tryLock(f)
		if err != nil {
			t.Fatal(err)
		}
		return locked
	}
	if free() {
		t.Error("the lock is free while a program holds it")
	}
	tell := func(pipe string) {
		if err := os.WriteFile(pipe, []byte("on\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
	tell(giveBack)
	again, err := lockFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	tell(end) // it was still running
}

// TestLockOfFolderThatGoes waits for the lock of a folder that is removed: nothing is created in
// its place.
func TestLockOfFolderThatGoes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	lock, err := makeAndLock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := lockFolder(t.Context(), dir)
		waited <- err
	}()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	if err := <-waited; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that it does not exist", err)
	}
	if exists(dir) {
		t.Error("the folder is there again")
	}
	called := false
	if err := withLock(t.Context(), dir, func(context.Context) error { called = true; return nil }); err != nil || !called {
		t.Errorf("without a folder: %v, called %v", err, called)
	}
	// A process that wants to create a sandbox there creates the folder again.
	again, err := makeAndLock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestRemoveFiles removes what a creator leaves behind when it is killed while it replaces a
// file.
func TestRemoveFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "box")
	if err := os.MkdirAll(filepath.Join(dir, "hosts", "a", "upper"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range ours {
		for _, path := range []string{filepath.Join(dir, name), beside(filepath.Join(dir, name))} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(removeFiles(dir), removeEmpty(dir)); err != nil {
		t.Fatal(err)
	}
	if exists(dir) {
		t.Error("the folder is still there")
	}
}
