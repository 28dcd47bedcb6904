package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/spool"
)

// spoolDir makes the folder for answers whose clients do not read yet. It is under data_dir,
// because on many machines the system's temporary folder is in memory. A daemon whose store is
// Redis may have no writable data_dir; then it uses the temporary folder.
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
