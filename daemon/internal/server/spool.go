package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/api/spool"
)

// spoolDir makes the folder where answers wait whose clients do not read yet. It is under
// data_dir, for the system's folder for temporary files is memory on many machines. A daemon
// whose store is Redis may have no data_dir that it can write to; it makes do with that one.
func spoolDir(cfg configs.Config, log *slog.Logger) (string, error) {
	dir := filepath.Join(cfg.DataDir, "spool")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = spool.Tidy(dir)
	}
	switch {
	case err == nil:
		return dir, nil
	case cfg.Store == "redis":
		log.Info("answers that wait for their clients go to the system's folder for temporary files, not to data_dir", "folder", os.TempDir(), "err", err)
		return os.TempDir(), nil
	}
	return "", fmt.Errorf("data directory: %w", err)
}
