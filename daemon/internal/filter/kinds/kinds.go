// Package kinds lists the kinds of filters that the daemon has. Each has a line here, and one in
// configs/kind.go, because settings are also checked without the daemon.
package kinds

import (
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/exact"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/scaling"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/simhash"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/timing"
)

// All lists every kind.
func All() []kind.Kind {
	return []kind.Kind{
		bloom.Kind(),
		timing.Kind(),
		exact.Kind(),
		simhash.Kind(),
		scaling.Kind(),
	}
}

// Of returns a kind by its name.
func Of(name string) (kind.Kind, error) {
	var known []string
	for _, k := range All() {
		if k.Name == name {
			return k, nil
		}
		known = append(known, k.Name)
	}
	return kind.Kind{}, fmt.Errorf("kind %q: this version knows %s\nhint: use the urifilter that made it, or a newer one", name, strings.Join(known, ", "))
}
