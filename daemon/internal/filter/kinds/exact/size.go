package exact

import (
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// size implements kind.Kind.
func size(_ engine.Spec, c kind.Contents) (kind.Size, error) {
	return kind.Size{Memory: table.New().Expected(c.Items), File: format.Expected(c.Items), Journal: 2 * kind.SlotBytes}, nil
}
