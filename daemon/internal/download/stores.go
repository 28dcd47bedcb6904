package download

import (
	"context"
	"io"
	"math"
)

// InPages is for stores: it calls each with the items that read returns, a page of at most that
// many at a time, until read reports that there are no more, or limit is reached (0: none). Pages
// may be shorter than asked for.
func InPages[T any](limit, page int, read func(most int) (some []T, more bool, err error), each func(T) error) error {
	left := limit
	if limit <= 0 {
		left = math.MaxInt
	}
	for more := true; more && left > 0; {
		var some []T
		var err error
		if some, more, err = read(min(page, left)); err != nil {
			return err
		}
		for _, one := range some {
			if err := each(one); err != nil {
				return err
			}
		}
		left -= len(some)
	}
	return nil
}

// UntilDone is for stores: it returns r, but reads fail once ctx has ended.
func UntilDone(ctx context.Context, r io.Reader) io.Reader { return &untilDone{ctx, r} }

type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(p)
}
