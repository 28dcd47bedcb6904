// Package memlimit finds out how much memory this process may have: what the machine has, or less
// if a control group (of a container, or of a service with MemoryMax=) allows less; and tells Go's
// collector how much of that is left for it.
//
// It bounds nothing else itself.
package memlimit

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Allowed returns how many bytes this process may have, 0 if that is not known, and what says so,
// in words.
func Allowed() (bytes uint64, by string) { return allowed(os.DirFS("/"), machine()) }

func allowed(root fs.FS, machine uint64) (least uint64, by string) {
	least, by = machine, "the machine"
	for _, g := range groups(root) {
		if n := g.limit(root); n > 0 && (least == 0 || n < least) {
			least, by = n, "the control group "+g.name
		}
	}
	return least, by
}

// group is a control group that this process is in, as a folder.
type group struct {
	name  string // as the process knows it
	mount string // the topmost folder that can be seen
	dir   string // the group's folder, in mount
	files []string
}

// The files that say how much memory a group may have. Above memory.high a process is slowed down
// to a crawl, so that is a limit, too.
var (
	filesV1 = []string{"memory.limit_in_bytes"}
	filesV2 = []string{"memory.max", "memory.high"}
)

// groups returns the groups that bound the memory of this process: of version 1, 2 or both.
func groups(root fs.FS) (all []group) {
	own, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(own)) { // 4:memory:/system.slice, 0::/system.slice
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, name, ok := strings.Cut(rest, ":")
		v2 := id == "0" && controllers == ""
		if !ok || !v2 && !contains(controllers, "memory") {
			continue
		}
		for _, m := range mountsOf(mounts, v2) {
			// A mount shows the groups from its root on. Those of a process that is not below
			// it, as in a container that sees its own group only, are taken for the root.
			inside, below := strings.CutPrefix(name, strings.TrimSuffix(m.root, "/"))
			if !below || inside != "" && inside[0] != '/' {
				inside = ""
			}
			g := group{name: name, mount: m.at, dir: path.Join(m.at, inside), files: filesV1}
			if v2 {
				g.files = filesV2
			}
			all = append(all, g)
		}
	}
	return all
}

func contains(list, word string) bool {
	return slices.Contains(strings.Split(list, ","), word)
}

type mount struct{ root, at string }

// mountsOf reads /proc/self/mountinfo: `36 35 98:0 /root /at options - type source options`.
func mountsOf(info []byte, v2 bool) (all []mount) {
	for lines := bufio.NewScanner(bytes.NewReader(info)); lines.Scan(); {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		from, to := strings.Fields(before), strings.Fields(after)
		if !ok || len(from) < 5 || len(to) < 3 {
			continue
		}
		if v2 && to[0] == "cgroup2" || !v2 && to[0] == "cgroup" && contains(to[2], "memory") {
			all = append(all, mount{root: unescaped.Replace(from[3]), at: unescaped.Replace(from[4])})
		}
	}
	return all
}

// unescaped undoes the escapes of the kernel, which has these four.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// limit returns the least limit of the group and of those above it; 0: there is none.
func (g group) limit(root fs.FS) (least uint64) {
	for dir := g.dir; ; dir = path.Dir(dir) {
		for _, name := range g.files {
			if n := readLimit(root, path.Join(dir, name)); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		if dir == g.mount || len(dir) <= 1 {
			return least
		}
	}
}

// readLimit reads a limit; 0: there is none. Version 1 writes none as the largest multiple of a
// page in 63 bits, version 2 as max.
func readLimit(root fs.FS, file string) uint64 {
	text, err := fs.ReadFile(root, strings.TrimPrefix(file, "/"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= 1<<62 {
		return 0
	}
	return n
}

// Collector keeps Go's heap within what the rest of a process leaves.
type Collector struct{ allowed uint64 }

// NewCollector returns the Collector of a process that may have so many bytes, or nil if they are
// not known or the environment has GOMEMLIMIT: its value stays.
func NewCollector(allowed uint64) *Collector {
	if _, set := os.LookupEnv("GOMEMLIMIT"); set || allowed == 0 {
		return nil
	}
	c := &Collector{allowed: allowed}
	c.Leave(0)
	return c
}

// Leave leaves so many bytes for what is not on Go's heap, and an eighth of all for the kernel, the pages of the
// program, and what the heap is over its limit while the collector waits for a processor.
// It works on nil.
func (c *Collector) Leave(bytes uint64) {
	if c == nil {
		return
	}
	limit := c.allowed - c.allowed/8
	// However little is left, the collector must not run all the time.
	left := max(limit-min(bytes, limit), c.allowed/16)
	debug.SetMemoryLimit(int64(min(left, math.MaxInt64)))
}
