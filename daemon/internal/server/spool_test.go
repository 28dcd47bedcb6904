package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// Answers wait under data_dir, which is not in memory; a daemon on Redis without one still works.
func TestSpoolIsUnderTheDataDirectory(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cfg := configs.Default()
	cfg.DataDir = t.TempDir()
	want := filepath.Join(cfg.DataDir, "spool")
	if got, err := spoolDir(cfg, log); got != want || err != nil {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if info, err := os.Stat(want); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info, err)
	}
	file := filepath.Join(cfg.DataDir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = file
	if _, err := spoolDir(cfg, log); err == nil {
		t.Error("a data_dir that is a file: no error")
	}
	cfg.Store = "redis"
	if got, err := spoolDir(cfg, log); got != os.TempDir() || err != nil {
		t.Errorf("redis without data_dir: got %s, %v", got, err)
	}
}
