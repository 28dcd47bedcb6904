package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// writeInventory writes an inventory in which the first host has every role and the
// others are filters.
func (s *Sandbox) writeInventory() error {
	var t strings.Builder
	t.WriteString("# Written by sandbox:up, and overwritten by the next one.\n")
	fmt.Fprintf(&t, "defaults:\n  user: root\n  identity_file: %s\n  known_hosts: %s\nhosts:\n",
		strconv.Quote(s.KeyFile), strconv.Quote(s.KnownHosts))
	for i, h := range s.Hosts {
		roles := "[filter]"
		switch {
		case i == 0 && s.Repository != nil:
			roles = "[filter, redis, mongodb]"
		case i == 0:
			roles = "[filter, redis]" // nothing to install MongoDB from
		}
		fmt.Fprintf(&t, "  - name: %s\n    address: %s\n    roles: %s\n", h.Name, h.Address, roles)
	}
	if r := s.Repository; r != nil {
		fmt.Fprintf(&t, "mongodb:\n  flavor: ferretdb\n  repository:\n    url: %s\n    suite: %s\n    component: %s\n    key_file: %s\n    packages: [%s]\n",
			r.URL, r.Suite, r.Component, strconv.Quote(r.KeyFile), r.Package)
	}
	return writeFile(s.Inventory, []byte(t.String()))
}

// giveAway lets the user who called sudo use the sandbox: read its files and log in.
func (s *Sandbox) giveAway() error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, gidErr := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err != nil || gidErr != nil || uid == 0 {
		return nil
	}
	if err := os.Lchown(s.Dir, uid, gid); err != nil {
		return err
	}
	for _, name := range ours {
		if err := os.Lchown(filepath.Join(s.Dir, name), uid, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
