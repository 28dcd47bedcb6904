//go:build !linux

package load

import (
	"context"
	"time"
)

func sleepPrecisely(ctx context.Context, until time.Time) { sleepUntil(ctx, until) }
