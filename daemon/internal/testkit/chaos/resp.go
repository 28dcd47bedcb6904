//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// respAsker is a client of Redis that goes from one daemon to the next. It repeats nothing by itself.
type respAsker struct {
	clients []*redis.Client
	daemons []*daemon
	blooms  []string // filters of which BF.INSERT and BF.MEXISTS are used, too
	n       int      // calls so far
}

func newRESP(daemons []*daemon, store string) *respAsker {
	a := &respAsker{daemons: daemons}
	if store != "mysql" {
		a.blooms = []string{forEver, churned}
	}
	for _, d := range daemons {
		a.clients = append(a.clients, redis.NewClient(&redis.Options{Addr: d.resp.Addr, MaxRetries: -1, DialTimeout: 2 * time.Second, ReadTimeout: 4 * time.Second, DisableIdentity: true}))
	}
	return a
}

// call makes a call at the next daemon: in every second round of them a command of RedisBloom, if the filter takes that,
// else one of our own.
func (a *respAsker) call(ctx context.Context, filter string, items []string, own string, bloom ...any) *redis.Cmd {
	a.n++
	args := []any{own, filter, "ITEMS"}
	if slices.Contains(a.blooms, filter) && a.n/len(a.clients)%2 == 0 {
		args = append([]any{bloom[0], filter}, bloom[1:]...)
	}
	for _, item := range items {
		args = append(args, item)
	}
	return a.clients[a.n%len(a.clients)].Do(ctx, args...)
}

func (a *respAsker) Filter(ctx context.Context, filter string, items []string, _ ...client.CallOption) (fresh []string, err error) {
	answer := a.call(ctx, filter, items, "UF.FILTER", "BF.INSERT", "NOCREATE", "ITEMS") // BF.MADD would make a filter that was dropped
	if answer.Args()[0] == "UF.FILTER" {
		fresh, err = answer.StringSlice()
		return fresh, told(err)
	}
	isNew, err := answer.BoolSlice()
	for i, is := range isNew {
		if is && i < len(items) {
			fresh = append(fresh, items[i])
		}
	}
	return fresh, told(err)
}

func (a *respAsker) Check(ctx context.Context, filter string, items []string, _ ...client.CallOption) ([]bool, error) {
	answer := a.call(ctx, filter, items, "UF.CHECK", "BF.MEXISTS")
	fresh, err := answer.BoolSlice()
	if answer.Args()[0] == "BF.MEXISTS" {
		for i := range fresh {
			fresh[i] = !fresh[i]
		}
	}
	if err == nil && len(fresh) != len(items) {
		err = fmt.Errorf("%d answers to %d items", len(fresh), len(items))
	}
	return fresh, told(err)
}

// told returns an error as callers of Redis know it: by its code, and whether items may have been remembered. An answer
// that cannot be understood stays as it is.
func told(err error) error {
	var answered redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answered):
		_, text, _ := strings.Cut(answered.Error(), " ")
		code, _, _ := strings.Cut(text, ":")
		return &toldError{code, slices.Contains([]string{problem.OutcomeUnknown, problem.StoreFailed, problem.Internal}, code)}
	case errors.As(err, new(net.Error)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, redis.ErrPoolTimeout):
		return &toldError{"connection of Redis", true}
	}
	return err
}

func (a *respAsker) URL() string { return a.daemons[a.n%len(a.daemons)].front.Addr }

func (a *respAsker) Close() {
	for _, c := range a.clients {
		_ = c.Close()
	}
}
