package sandbox

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Rehearsal returns n hosts named sandbox1, sandbox2 and so on, whose releases are those in
// names, separated by commas, in turn. No names: bookworm.
func Rehearsal(n int, names string) ([]Spec, error) {
	if n < 1 || n > maxHosts {
		return nil, fmt.Errorf("sandbox: %d hosts: want 1 to %d", n, maxHosts)
	}
	wanted := strings.Split(names, ",")
	if names == "" {
		wanted = releases[:1]
	}
	var specs []Spec
	for i := range n {
		spec := Spec{Name: fmt.Sprintf("sandbox%d", i+1), Release: strings.TrimSpace(wanted[i%len(wanted)])}
		if err := spec.validate(); err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// Status writes a table of the hosts.
func (s *Sandbox) Status(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, h := range s.Hosts {
		is := "down"
		if h.Up() {
			is = "up"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Name, h.Release, h.Address, is)
	}
	return w.Flush()
}

// SSHArguments returns the arguments with which ssh logs in on a host ("": the only one) as a
// user ("": root), with the sandbox's key, and with its host keys checked.
func (s *Sandbox) SSHArguments(host, user string) ([]string, error) {
	h := s.Host(host)
	switch {
	case host == "" && len(s.Hosts) == 1:
		h = s.Hosts[0]
	case host == "":
		return nil, fmt.Errorf("sandbox: %d hosts: which one?\nhint: -host=%s", len(s.Hosts), s.names())
	case h == nil:
		return nil, fmt.Errorf("sandbox: no host %s\nhint: -host=%s", host, s.names())
	}
	user = cmp.Or(user, "root")
	return []string{
		"-F", "none", "-i", s.KeyFile, "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes",
		"-o", "UserKnownHostsFile=\"" + s.KnownHosts + "\"", user + "@" + h.Address,
	}, nil
}

func (s *Sandbox) names() string {
	var names []string
	for _, h := range s.Hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, " or -host=")
}

// Describe tells people what Up has made, and what to do with it.
func (s *Sandbox) Describe(out io.Writer) error {
	if !s.Changed() {
		fmt.Fprintln(out, "unchanged")
	}
	if err := s.Status(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `
inventory   %s
log in      go tool mage sandbox:ssh -host=%s
rehearse    go tool mage plan, then go tool mage deploy
remove      go tool mage sandbox:down
`, s.Inventory, s.Hosts[0].Name)
	return err
}
