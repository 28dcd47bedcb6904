package graph

import (
	"cmp"
	"slices"
	"strings"
)

// Report has the statistics of a graph.
type Report struct {
	URIs    int    `json:"uris"`     // that the graph knows
	Pages   int    `json:"pages"`    // that the crawl has stored
	Links   int    `json:"links"`    // that were found
	Unequal int    `json:"distinct"` // distinct pairs of source and target
	Hosts   int    `json:"hosts"`
	Top     []Node `json:"top"`
	ByHost  []Host `json:"by_host"`
	Dead    []Dead `json:"dead"`
	DeadAll int    `json:"dead_uris"` // how many there are, including those that Dead leaves out
}

// Node is a URI with its place in the graph.
type Node struct {
	URI      string  `json:"uri"`
	InDegree int     `json:"in_degree"` // other pages that lead to it
	Links    int     `json:"links"`     // URIs that it leads to
	PageRank float64 `json:"pagerank"`  // of 1 for all URIs together
	Status   int     `json:"status"`    // of HTTP; 0: no answer, or no request
}

// Host has the figures for all URIs of one host.
type Host struct {
	Host  string `json:"host"`
	URIs  int    `json:"uris"`
	Pages int    `json:"pages"` // that were stored
	Links int    `json:"links"` // from its pages
	From  int    `json:"from"`  // links to it from pages of other hosts
	Dead  int    `json:"dead"`  // URIs
}

// Dead is a URI that leads nowhere.
type Dead struct {
	URI    string   `json:"uri"`
	Status int      `json:"status"` // of HTTP; 0: no answer
	Reason string   `json:"reason"` // why the crawl gave it up, as a word; "": it was stored
	Links  int      `json:"links"`  // pages that lead to it
	From   []string `json:"from"`   // the first of them
}

const maxFrom = 3 // pages that are named for a dead link

// By is an order of URIs.
type By string

// The orders.
const (
	ByPageRank By = "pagerank"
	ByInDegree By = "in-degree"
)

// Report makes a report of the graph, with lists of at most most entries.
func (g *Graph) Report(limit int, by By) Report {
	in, ranks := g.inDegree(), g.PageRank()
	r := Report{URIs: len(g.uris), Links: g.lines, Unequal: len(g.to), Top: []Node{}, ByHost: []Host{}, Dead: []Dead{}}
	for _, p := range g.page {
		if p.stored {
			r.Pages++
		}
	}
	for _, id := range g.order(in, ranks, by)[:min(limit, len(g.uris))] {
		r.Top = append(r.Top, Node{g.uris[id], int(in[id]), len(g.links(id)), ranks[id], int(g.page[id].status)})
	}
	hosts := g.byHost()
	r.Hosts, r.ByHost = len(hosts), hosts[:min(limit, len(hosts))]
	r.Dead, r.DeadAll = g.deadLinks(in, limit)
	return r
}

// order returns all URIs, the best first; those with equal rank and degree by their text.
func (g *Graph) order(in []int32, ranks []float64, by By) []uint32 {
	all := make([]uint32, len(g.uris))
	for i := range all {
		all[i] = uint32(i)
	}
	slices.SortFunc(all, func(a, b uint32) int {
		rank, degree := cmp.Compare(ranks[b], ranks[a]), cmp.Compare(in[b], in[a])
		if by == ByInDegree {
			rank, degree = degree, rank
		}
		return cmp.Or(rank, degree, cmp.Compare(g.uris[a], g.uris[b]))
	})
	return all
}

// dead reports whether a link to the URI leads nowhere: it has a status of 400 or more, or was
// given up without an answer. URIs that robots.txt forbids may exist, and are not dead.
func (g *Graph) dead(id uint32) bool {
	reason := g.reason[id]
	return g.page[id].status >= 400 || reason != "" && !strings.HasPrefix(reason, "robots") && g.page[id].status == 0
}

func (g *Graph) byHost() []Host {
	number := map[string]int{}
	var hosts []Host
	of := make([]int, len(g.uris))
	for id, text := range g.uris {
		name := hostOf(text)
		n, ok := number[name]
		if !ok {
			n = len(hosts)
			number[name] = n
			hosts = append(hosts, Host{Host: name})
		}
		of[id] = n
		h := &hosts[n]
		h.URIs++
		if g.page[id].stored {
			h.Pages++
		}
		if g.dead(uint32(id)) {
			h.Dead++
		}
	}
	for from := range g.uris {
		for _, to := range g.links(uint32(from)) {
			hosts[of[from]].Links++
			if of[from] != of[to] {
				hosts[of[to]].From++
			}
		}
	}
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(b.URIs, a.URIs), cmp.Compare(a.Host, b.Host))
	})
	return hosts
}

// hostOf is the host of a canonical URI with its port, or what takes its place.
func hostOf(uri string) string {
	_, rest, ok := strings.Cut(uri, "://")
	if !ok {
		return "(no host)"
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// deadLinks returns the dead URIs, those with the most links first, and how many there are.
func (g *Graph) deadLinks(in []int32, limit int) ([]Dead, int) {
	var ids []uint32
	for id := range g.uris {
		if g.dead(uint32(id)) {
			ids = append(ids, uint32(id))
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(in[b], in[a]), cmp.Compare(g.uris[a], g.uris[b]))
	})
	place := map[uint32]int{}
	dead := []Dead{}
	for i, id := range ids[:min(limit, len(ids))] {
		place[id] = i
		dead = append(dead, Dead{g.uris[id], int(g.page[id].status), g.reason[id], int(in[id]), []string{}})
	}
	for from := range g.uris {
		for _, to := range g.links(uint32(from)) {
			if i, ok := place[to]; ok && to != uint32(from) && len(dead[i].From) < maxFrom {
				dead[i].From = append(dead[i].From, g.uris[from])
			}
		}
	}
	return dead, len(ids)
}
