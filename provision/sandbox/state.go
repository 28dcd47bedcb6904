package sandbox

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hosts are numbered from firstHost: 10.88.INDEX.11 is the first one's address.
const (
	firstHost = 11
	maxHosts  = 200
)

// state is what is remembered about a sandbox, in state.json in its folder.
type state struct {
	// Index tells sandboxes on one machine apart: it is in the names of everything outside of
	// the folder, and is the third byte of the addresses. -1: none yet.
	Index int         `json:"index"`
	Hosts []hostState `json:"hosts"`
	// Repository is the folder of the package repository that is served, "" if none is.
	Repository string `json:"repository,omitempty"`
}

type hostState struct {
	Name     string           `json:"name"`
	Release  string           `json:"release"`
	Number   int              `json:"number"`
	Password string           `json:"password"`
	Disks    map[string]int64 `json:"disks,omitempty"`
}

// releases are the releases that are tested; the first is the default.
var releases = []string{"bookworm", "trixie"}

var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$`)

func (s Spec) validate() error {
	if !hostName.MatchString(s.Name) {
		return fmt.Errorf("sandbox host %q: want a name of lower-case letters, digits and dashes, 30 at most", s.Name)
	}
	if s.Release != "" && !slices.Contains(releases, s.Release) {
		return fmt.Errorf("sandbox host %s: release %q: want %s", s.Name, s.Release, strings.Join(releases, " or "))
	}
	if strings.ContainsAny(s.Password, "\n\r\x00") {
		return fmt.Errorf("sandbox host %s: password: more than one line", s.Name)
	}
	for path, size := range s.Disks {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || strings.ContainsAny(path, " \t\n:") {
			return fmt.Errorf("sandbox host %s: disk %q: want the absolute path of a folder, without blanks", s.Name, path)
		}
		if size < 8<<20 {
			return fmt.Errorf("sandbox host %s: disk %s: %d bytes: want 8 MiB or more", s.Name, path, size)
		}
	}
	return nil
}

// readState returns the state of the folder, an empty one if there is none.
func readState(dir string) (state, error) {
	st := state{Index: -1}
	text, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &st)
	}
	if err != nil {
		return st, fmt.Errorf("state of sandbox %s: %w", dir, err)
	}
	return st, nil
}

func (st state) write(dir string) error {
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "state.json"), append(text, '\n'))
}

// add adds hosts that do not exist yet.
func (st *state) add(specs []Spec) error {
	for _, spec := range specs {
		spec.Release = cmp.Or(spec.Release, releases[0])
		i := slices.IndexFunc(st.Hosts, func(h hostState) bool { return h.Name == spec.Name })
		switch {
		case i >= 0 && st.Hosts[i].Release != spec.Release:
			return fmt.Errorf("host %s: is there with %s, not %s\nhint: go tool mage sandbox:down, or another name",
				spec.Name, st.Hosts[i].Release, spec.Release)
		case i >= 0:
			continue
		case len(st.Hosts) == maxHosts:
			return fmt.Errorf("host %s: there are %d hosts already", spec.Name, maxHosts)
		}
		if spec.Password == "" {
			spec.Password = rand.Text()
		}
		st.Hosts = append(st.Hosts, hostState{
			Name: spec.Name, Release: spec.Release, Number: firstHost + len(st.Hosts),
			Password: spec.Password, Disks: spec.Disks,
		})
	}
	return nil
}

func (st state) sandbox(dir string, out io.Writer) *Sandbox {
	s := &Sandbox{
		Dir: dir, Gateway: gateway(st.Index),
		KeyFile:    filepath.Join(dir, "id_ed25519"),
		KnownHosts: filepath.Join(dir, "known_hosts"),
		Inventory:  filepath.Join(dir, "hosts.yaml"),
		state:      st, out: out,
	}
	for _, h := range st.Hosts {
		s.Hosts = append(s.Hosts, &Host{
			Name: h.Name, Release: h.Release, Address: address(st.Index, h.Number), Port: 22,
			User: "deploy", Password: h.Password, sandbox: s, state: h,
		})
	}
	return s
}

// ours are the files of a sandbox's folder, besides the folder hosts. Earlier versions had a lock.
var ours = []string{"id_ed25519", "id_ed25519.pub", "known_hosts", "hosts.yaml", "key.asc", "server", "server.log", "state.json", "lock"}

// removeFiles deletes what Up has made in the folder.
func removeFiles(dir string) error {
	if err := removeTree(filepath.Join(dir, "hosts")); err != nil {
		return err
	}
	for _, name := range ours {
		for _, path := range []string{filepath.Join(dir, name), beside(filepath.Join(dir, name))} {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// removeEmpty deletes the folder if nothing is left in it.
func removeEmpty(dir string) error {
	left, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || len(left) > 0 {
		return nil // there is no folder, or files of somebody else
	}
	if err != nil {
		return err
	}
	return os.Remove(dir)
}

// beside is where the new content of a file is written first. A process killed then leaves it.
func beside(path string) string { return path + ".new" }

// writeFile replaces a file in one step; nobody else can read it.
func writeFile(path string, text []byte) error {
	temp := beside(path)
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

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
