package powerloss

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// unit is one thing that the cut leaves in one of several ways.
type unit struct {
	node *node
	name string // of a folder's entry
	page int64  // of a file; -1: its length
	n    int    // number of ways
}

// choice is the way chosen for a unit. The zero choice is what the system's cache has.
type choice struct {
	back int      // how many versions older than the newest
	torn []int    // of a page: for each sector, how many versions older
	old  *garbage // of a page that the disk never had: what the block held before
}

type garbage struct{ content []byte }

// State is one way in which a cut may leave a disk.
type State struct {
	disk    *Disk
	units   []unit
	choices []choice
}

// Intact returns the state that the system's cache shows: that of a killed process.
func (d *Disk) Intact() State {
	s := State{disk: d}
	var visit func(n *node)
	seen := map[*node]bool{}
	visit = func(n *node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			all := n.names[name]
			if len(all) > 1 {
				s.units = append(s.units, unit{node: n, name: name, n: len(all)})
			}
			for _, child := range all {
				visit(child)
			}
		}
		if n.names != nil {
			return
		}
		if len(n.sizes) > 1 {
			s.units = append(s.units, unit{node: n, page: -1, n: len(n.sizes)})
		}
		for _, at := range slices.Sorted(maps.Keys(n.pages)) {
			if len(n.pages[at].versions) > 1 {
				s.units = append(s.units, unit{node: n, page: at, n: len(n.pages[at].versions)})
			}
		}
	}
	visit(d.top)
	s.choices = make([]choice, len(s.units))
	return s
}

// Ways returns how many states there are, without those with torn pages; at most limit.
func (s State) Ways(limit int) int {
	ways := 1
	for _, u := range s.units {
		if ways *= u.n; ways >= limit {
			return limit
		}
	}
	return ways
}

// Nth returns one of the Ways states.
func (s State) Nth(i int) State {
	s.choices = make([]choice, len(s.units))
	for at, u := range s.units {
		s.choices[at].back = i % u.n
		i /= u.n
	}
	return s
}

// Oldest returns the state in which only what had to reach the disk has reached it.
func (s State) Oldest() State {
	s.choices = make([]choice, len(s.units))
	for at, u := range s.units {
		s.choices[at].back = u.n - 1
	}
	return s
}

// Random returns a random state: much is lost, or little, or all but a little.
func (s State) Random(rng *rand.Rand) State {
	s.choices = make([]choice, len(s.units))
	lost := []float64{0.05, 0.3, 0.5, 0.9}[rng.IntN(4)]
	names := []float64{0, lost}[rng.IntN(2)] // often a cut leaves the names as they were
	if rng.IntN(4) == 0 && len(s.units) > 0 {
		lost, names = 0, 0
		s.choices[rng.IntN(len(s.units))].back = 1
	}
	for at, u := range s.units {
		p := lost
		if u.name != "" {
			p = names
		}
		if rng.Float64() >= p {
			continue
		}
		s.choices[at].back = 1 + rng.IntN(u.n-1)
		if u.page < 0 || u.name != "" {
			continue
		}
		switch rng.IntN(8) {
		case 0, 1:
			s.choices[at].torn = make([]int, pageBytes/sectorBytes)
			for i := range s.choices[at].torn {
				s.choices[at].torn[i] = rng.IntN(u.n)
			}
		case 2:
			if u.node.pages[u.page].fresh {
				s.choices[at].old = &garbage{s.disk.anyPage(rng)}
			}
		}
	}
	return s
}

// anyPage returns the contents of some block of the disk.
func (d *Disk) anyPage(rng *rand.Rand) []byte {
	nodes := []*node{}
	for _, n := range d.files {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int { return a.id - b.id })
	n := nodes[rng.IntN(len(nodes))]
	at := slices.Sorted(maps.Keys(n.pages))
	if len(at) == 0 {
		return nil
	}
	return last(n.pages[at[rng.IntN(len(at))]].versions)
}

// Lost lists what differs from the system's cache.
func (s State) Lost() []string {
	var all []string
	for at, c := range s.choices {
		u := s.units[at]
		what := fmt.Sprintf("file %d, page %d", u.node.id, u.page)
		switch {
		case u.name != "":
			what = fmt.Sprintf("name %s in folder %d", u.name, u.node.id)
		case u.page < 0:
			what = fmt.Sprintf("length of file %d", u.node.id)
		}
		switch {
		case c.old != nil:
			what += ": what the block held before"
		case c.torn != nil:
			what += fmt.Sprintf(": torn, sectors %v versions old", c.torn)
		case c.back > 0:
			what += fmt.Sprintf(": %d of %d versions old", c.back, u.n)
		default:
			continue
		}
		all = append(all, what)
	}
	return all
}

// Shrink restores what was lost as long as the state stays bad.
func (s State) Shrink(bad func(State) bool) State {
	for step := (len(s.choices) + 1) / 2; step > 0; step /= 2 {
		for at := 0; at < len(s.choices); at += step {
			try := s
			try.choices = slices.Clone(s.choices)
			clear(try.choices[at:min(at+step, len(s.choices))])
			if len(try.Lost()) < len(s.Lost()) && bad(try) {
				s = try
			}
		}
	}
	return s
}

// Make creates the folder in this state at path, which must not exist.
func (s State) Make(path string) error {
	m := maker{chosen: map[*node]map[string]choice{}, made: map[*node]string{}}
	for at, u := range s.units {
		key := u.name
		if key == "" {
			key = fmt.Sprint("/", u.page)
		}
		if m.chosen[u.node] == nil {
			m.chosen[u.node] = map[string]choice{}
		}
		m.chosen[u.node][key] = s.choices[at]
	}
	return m.folder(s.disk.top, path)
}

type maker struct {
	chosen map[*node]map[string]choice
	made   map[*node]string
}

func older[T any](all []T, back int) T { return all[len(all)-1-back] }

func (m maker) folder(n *node, path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	m.made[n] = path
	for name, all := range n.names {
		child := older(all, m.chosen[n][name].back)
		if child == nil {
			continue
		}
		to := filepath.Join(path, name)
		had, twice := m.made[child]
		var err error
		switch {
		case twice && child.names != nil: // a folder is never under two names
		case twice:
			err = os.Link(had, to)
		case child.names != nil:
			err = m.folder(child, to)
		default:
			err = m.file(child, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m maker) file(n *node, path string) (err error) {
	m.made[n] = path
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := older(n.sizes, m.chosen[n]["/-1"].back)
	if err := f.Truncate(size); err != nil {
		return err
	}
	for at, p := range n.pages {
		content := p.content(m.chosen[n][fmt.Sprint("/", at)])
		if off := at * pageBytes; content != nil && off < size {
			if _, err := f.WriteAt(content[:min(pageBytes, size-off)], off); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *page) content(c choice) []byte {
	switch {
	case c.old != nil:
		return c.old.content
	case c.torn == nil:
		return older(p.versions, c.back)
	}
	content := make([]byte, pageBytes)
	for i, back := range c.torn {
		if v := older(p.versions, back); v != nil {
			copy(content[i*sectorBytes:(i+1)*sectorBytes], v[i*sectorBytes:])
		}
	}
	return content
}
