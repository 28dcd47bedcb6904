package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cr-clawer/urifilter/systemd"
)

// verify has systemd check the units before they are installed.
func (h *unitHost) verify(ctx context.Context, files []systemd.File) error {
	dir, err := os.MkdirTemp("", h.program.Name+"-units-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := []string{"verify"}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.WriteFile(path, f.Content, f.Mode); err != nil {
			return err
		}
		args = append(args, path)
	}
	if _, err := h.run(ctx, "systemd-analyze", args...); err != nil {
		return fmt.Errorf("systemd rejects the units; nothing was changed: %w", err)
	}
	return nil
}

// apply writes the differences. The service itself is registered last, when the units that
// it names exist.
func (h *unitHost) apply(ctx context.Context, in *installation) error {
	if len(in.disable) > 0 {
		if err := h.systemctl(ctx, append([]string{"disable", "--now"}, in.disable...)...); err != nil {
			return err
		}
	}
	var own []unitChange // the service, if it is new
	for _, c := range in.Units {
		switch {
		case c.Change == "created" && c.name == h.program.Service():
			own = append(own, c)
		case c.Change == "created", c.Change == "updated":
			if err := writeUnit(c.Path, c.content); err != nil {
				return err
			}
		case c.Change == "removed":
			if err := os.Remove(c.Path); err != nil {
				return err
			}
		}
	}
	for _, c := range own {
		if err := h.register(ctx, c); err != nil {
			return err
		}
	}
	if !in.Changed {
		return nil
	}
	if err := h.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if len(in.Enabled) > 0 {
		if err := h.systemctl(ctx, append([]string{"enable"}, in.Enabled...)...); err != nil {
			return err
		}
	}
	if timer := h.program.JobTimer(); slices.Contains(in.Enabled, timer) { // it must be started to have an effect
		return h.systemctl(ctx, "start", timer)
	}
	return nil
}

// register registers a new service.
func (h *unitHost) register(ctx context.Context, c unitChange) error {
	if h.dir != systemd.Dir {
		return writeUnit(c.Path, c.content)
	}
	if err := h.systemctl(ctx, "daemon-reload"); err != nil { // the units that it names
		return err
	}
	s, err := registration(h.program, string(c.content))
	if err != nil {
		return err
	}
	if err := s.Install(); err != nil {
		return fmt.Errorf("register %s: %w", c.name, err)
	}
	// The library writes in place, with a mode that depends on umask.
	return writeUnit(c.Path, c.content)
}

// writeUnit replaces a unit in one step: systemd reads the old one or the new one.
func writeUnit(path string, content []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), ".unit-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(content)
	if err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
