package access

import (
	"strconv"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// running counts the calls of each token that run, so that one token cannot have all connections.
type running struct {
	limit int // of one token; 0: no limit

	mu sync.Mutex
	of map[string]int
}

// Enter counts a call of the token with this name, or refuses it if too many of that token run.
// Leave must follow unless it is refused.
func (g *Guard) Enter(name string) error {
	r := &g.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit > 0 && r.of[name] >= r.limit {
		return &problemdetail.Error{Code: problemdetail.Overloaded,
			Detail: "token " + name + " has " + strconv.Itoa(r.limit) + " calls that have not ended: half of limits.connections, all that one token gets"}
	}
	r.of[name]++
	return nil
}

// Leave ends what Enter began.
func (g *Guard) Leave(name string) {
	r := &g.running
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[name]--; r.of[name] == 0 {
		delete(r.of, name)
	}
}
