package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/release"
	"github.com/cr-clawer/urifilter/provision/rollout"
)

// resumable are the targets with -resume: those that process a fleet in batches. The others are
// simply repeated.
var resumable = []string{"deploy", "settings:push", "settings:update"}

// resumableOfDaemon are those of a program's namespace.
var resumableOfDaemon = []string{"restart", "rollback"}

// resume returns the command to continue with after a failure, "" if that is the same call again.
func (t *Toolkit) resume(target string) string {
	_, verb, _ := strings.Cut(target, ":")
	ofDaemon := target == t.program.Name+":"+verb && slices.Contains(resumableOfDaemon, verb)
	if !ofDaemon && !slices.Contains(resumable, target) {
		return ""
	}
	return t.call(target, "-resume")
}

// call returns the command of a target with its given flags, ready to paste.
func (t *Toolkit) call(target string, more ...string) string {
	words := append([]string{"go", "tool", "mage", target}, more...)
	var variables []string
	for _, name := range []string{inventory.HostsEnv, inventory.PathEnv} {
		if value := t.o.Getenv(name); value != "" && t.o.Inventory == "" {
			variables = append(variables, name+"="+shellWord(value))
		}
	}
	for _, f := range []struct{ name, value string }{
		{"hosts", t.o.Hosts}, {"inventory", t.o.Inventory}, {"binary", t.o.Binary},
	} {
		if f.value != "" {
			words = append(words, "-"+f.name+"="+shellWord(f.value))
		}
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"keepGoing", t.o.KeepGoing}, {"json", t.o.JSON}, {"v", t.o.Verbose}} {
		if f.set {
			words = append(words, "-"+f.name)
		}
	}
	if t.o.Parallel > 0 {
		words = append(words, fmt.Sprintf("-parallel=%d", t.o.Parallel))
	}
	return strings.Join(slices.Concat(variables, words, t.more), " ")
}

// noteFlags records flags that only this target has, name and value alternating.
func (t *Toolkit) noteFlags(flags ...string) {
	for i := 0; i < len(flags); i += 2 {
		if flags[i+1] != "" {
			t.more = append(t.more, "-"+flags[i]+"="+shellWord(flags[i+1]))
		}
	}
}

// shellWord quotes a text that a shell would not read as one plain word.
func shellWord(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@:,+%={}") == "" {
		return text
	}
	return host.Quote(text)
}

// fingerprint identifies what is rolled out: inventory, settings, tokens, program, and the certificates of the operator.
func (t *Toolkit) fingerprint() string {
	sum := sha256.New()
	paths := []string{t.inventory.Path()}
	for _, p := range t.o.Programs {
		own, _ := t.inventory.Own(p.Section)
		paths = append(paths, own.SettingsFile)
		given := []string{(&rollout.Builds{Given: t.o.Binary}).GivenFor(p), own.Binary}
		for _, h := range t.inventory.Hosts {
			given = append(given, h.Own(p.Section).Binary)
		}
		for _, path := range given {
			paths = append(paths, release.Paths(path)...)
		}
	}
	inv := t.inventory
	for _, h := range inv.Hosts { // {host} stands for it in them
		for _, path := range []string{inv.TLS.CAFile, inv.TLS.CertFile, inv.TLS.KeyFile} {
			paths = append(paths, strings.ReplaceAll(path, "{host}", h.Name))
		}
	}
	paths = append(paths, inv.MongoDB.Repository.KeyFile)
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) { // many hosts may have the same program
		fmt.Fprintf(sum, "%s\n", path)
		if file, err := os.Open(path); err == nil {
			_, _ = io.Copy(sum, file)
			_ = file.Close()
		}
	}
	for _, p := range t.o.Programs {
		for _, token := range t.tokens[p.Name] {
			fmt.Fprintln(sum, p.Name, token.Name, token.Digest(), token.Scopes)
		}
	}
	if inv.From() == inventory.HostsEnv {
		fmt.Fprintln(sum, t.o.Getenv(inventory.HostsEnv))
	}
	fmt.Fprintf(sum, "%s\n%s\n", t.o.Getenv(inv.MongoDB.URIEnv), t.o.Revision)
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// whoami returns user@machine.
func whoami() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
		if i := strings.LastIndexByte(name, '\\'); i >= 0 {
			name = name[i+1:] // drop a Windows domain
		}
	}
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return name + "@" + machine
}

// words returns the words of a comma-separated text.
func words(text string) []string {
	var all []string
	for w := range strings.SplitSeq(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			all = append(all, w)
		}
	}
	return all
}
