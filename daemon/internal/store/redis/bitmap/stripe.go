package bitmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// merge puts the stripe in KEYS[2] into the one in KEYS[1], in one step. A stripe without a head
// was made by test-and-sets after Redis had lost it; no caller was given their replies, so it is
// replaced, not or-ed. ARGV: the heads of an open and of a closed stripe, and 1 if a stripe of
// another map is to be replaced as well. Returns 1: or-ed, 0: did not exist, -1: another map's,
// -2: not ours.
var merge = redis.NewScript(`
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' and kind ~= 'none' then redis.call('DEL', KEYS[2]) return -2 end
local head = redis.call('GETRANGE', KEYS[1], 0, 7)
if head == ARGV[1] or head == ARGV[2] then
  redis.call('BITOP', 'OR', KEYS[1], KEYS[1], KEYS[2])
  redis.call('DEL', KEYS[2])
  return 1
end
if head ~= '' and head ~= string.rep('\0', 8) then
  if string.upper(string.sub(head, 1, 4)) ~= 'URIS' then redis.call('DEL', KEYS[2]) return -2 end
  if ARGV[3] ~= '1' then redis.call('DEL', KEYS[2]) return -1 end
end
redis.call('RENAME', KEYS[2], KEYS[1])
redis.call('PERSIST', KEYS[1])
return 0
`)

// tmpTTL removes what a daemon has left that died in the middle of a merge.
const tmpTTL = 5 * time.Minute

// putStripe ors data, the bytes of stripe i of l, into Redis; nil data makes sure that the stripe
// exists. It reports whether the stripe was missing.
func (s *Set) putStripe(ctx context.Context, l *layer, i int, data []byte, replace bool) (gone bool, err error) {
	key := l.keys[i]
	// Of this call alone: a restore may put in the same stripe that is being resynced.
	tmp := key + ":" + s.Members.Self + ":" + serial()
	value := append(append(make([]byte, 0, headBytes+len(data)), l.present()...), data...)
	if err := s.Servers.Admin.Set(ctx, tmp, value, tmpTTL).Err(); err != nil {
		return false, err
	}
	force := "0"
	if replace {
		force = "1"
	}
	code, err := merge.Run(ctx, s.Servers.Admin, []string{key, tmp}, l.head, l.closedHead, force).Int()
	switch {
	case err != nil:
		return false, err
	case code == 0:
		return true, nil
	case code == -1:
		return false, shared.Damaged(fmt.Errorf("key %s: %w", key, base.ErrOther))
	case code == -2:
		return false, shared.Damaged(registry.Foreign(key))
	}
	return false, nil
}

// getStripe reads stripe i of l from Redis into buf; what is missing at its end is zero.
func (s *Set) getStripe(ctx context.Context, l *layer, i int, buf []byte) ([]byte, error) {
	key := l.keys[i]
	text, err := s.Servers.Admin.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		if strings.HasPrefix(err.Error(), "WRONGTYPE") {
			return nil, shared.Damaged(registry.Foreign(key))
		}
		return nil, err
	}
	if err := l.checkStripe(i, text[:min(len(text), headBytes)], len(text)); err != nil {
		return nil, err
	}
	buf = buf[:l.header.StripeSize(i)]
	clear(buf[copy(buf, text[headBytes:]):])
	return buf, nil
}

// checkStripe returns what is wrong with stripe i, which has this head and length in Redis.
func (l *layer) checkStripe(i int, head string, length int) error {
	key, size := l.keys[i], l.header.StripeSize(i)
	switch {
	case len(head) < headBytes || head == strings.Repeat("\x00", headBytes):
		return fmt.Errorf("key %s: %w", key, insync.ErrLost)
	case head[:len(openMark)] != openMark && head[:len(closedMark)] != closedMark:
		return shared.Damaged(registry.Foreign(key))
	case head != string(l.head) && head != string(l.closedHead):
		return shared.Damaged(fmt.Errorf("key %s: %w", key, base.ErrOther))
	case length > headBytes+size:
		return shared.Damaged(fmt.Errorf("key %s: has %d bytes, want %d at most", key, length, headBytes+size))
	}
	return nil
}

// Stripe implements engine.BitMap: what Redis has, other daemons' items included. A resync waits for it, as
// for Has.
func (s *Set) Stripe(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if err := s.Enter(); err != nil {
		return nil, err
	}
	defer s.Use.RUnlock()
	s.State.Flight.RLock()
	defer s.State.Flight.RUnlock()
	if err := s.Check(); err != nil {
		return nil, err
	}
	n, i := s.Entry.Header.StripeOf(i)
	l := s.layers()[n]
	data, err := s.getStripe(ctx, l, i, buf)
	if err != nil {
		return nil, s.EngineError(ctx, err)
	}
	return data, l.merge(i, data) // what is known need not be asked
}

// MergeStripe implements engine.BitMap.
func (s *Set) MergeStripe(ctx context.Context, i int, data []byte) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Use.RUnlock()
	n, i := s.Entry.Header.StripeOf(i)
	for len(s.layers()) <= n {
		layers := s.layers()
		if _, err := s.grow(ctx, layers[len(layers)-1]); err != nil {
			return s.EngineError(ctx, err)
		}
	}
	l := s.layers()[n]
	if i < 0 || i >= len(l.keys) || len(data) != l.header.StripeSize(i) {
		return l.mirror.MergeStripe(i, data) // says what is wrong
	}
	if _, err := s.putStripe(ctx, l, i, data, false); err != nil {
		return s.EngineError(ctx, err)
	}
	if n < len(s.layers())-1 {
		s.mergedClosed.Store(true)
	}
	if !l.mirror.whole() {
		if err := s.count(ctx, l, i); err != nil {
			return s.EngineError(ctx, err)
		}
	}
	return l.mirror.MergeStripe(i, data)
}

// Commit implements engine.BitMap: what was merged is in Redis. But the other daemons do not ask
// Redis about closed layers; a resync makes them read these again, and Commit waits for its end.
// A resync that is already under way does not suffice: others may have read them before.
func (s *Set) Commit(ctx context.Context) error {
	if !s.mergedClosed.Swap(false) {
		return nil
	}
	if err := s.awaitSync(ctx); err != nil {
		return err
	}
	s.State.Invalidate(insync.ErrMerged)
	return s.awaitSync(ctx)
}

func (s *Set) awaitSync(ctx context.Context) error {
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		_, err := s.State.Check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-retry.C:
		}
	}
}

// Load implements base.Filter: it reads all stripes into the mirror.
func (s *Set) Load(ctx context.Context) (lost bool, err error) {
	closed := s.layers()
	closed = closed[:len(closed)-1]
	if err := s.followGrowth(ctx); err != nil && !errors.Is(err, insync.ErrLost) {
		return false, err
	}
	layers := s.layers() // all others are learned now, or are closed; if one has lost a stripe, Resync adds what follows it
	for _, l := range append(closed[:len(closed):len(closed)], layers[len(layers)-1]) {
		if err := s.read(ctx, l); errors.Is(err, insync.ErrLost) {
			lost = true
		} else if err != nil {
			return false, err
		}
	}
	return lost, s.RefreshUnacked(ctx)
}

// read puts what Redis has of the layer into its mirror, if that is whole. Stripes that are lost
// are left out, and it then returns insync.ErrLost.
func (s *Set) read(ctx context.Context, l *layer) (lost error) {
	if !l.mirror.whole() {
		return s.look(ctx, l)
	}
	buf := make([]byte, l.header.LargestStripe())
	for i := range l.keys {
		data, err := s.getStripe(ctx, l, i, buf)
		if errors.Is(err, insync.ErrLost) {
			lost = err
			continue
		}
		if err != nil {
			return err
		}
		if err := l.mirror.MergeStripe(i, data); err != nil {
			return err
		}
	}
	return lost
}

// Create implements base.Filter: it makes sure that all stripes exist.
func (s *Set) Create(ctx context.Context) error {
	l := s.layers()[0]
	for i := range l.keys {
		if _, err := s.putStripe(ctx, l, i, nil, true); err != nil {
			return err
		}
	}
	return nil
}

// Stop implements base.Filter. What a restarted server has of unacknowledged items
// may have been given out since: see unacked.
func (s *Set) Stop(ctx context.Context, started bool) error {
	if !started || s.UnackedIsNew {
		return nil
	}
	return s.Servers.Admin.Unlink(ctx, s.unackedKey).Err()
}

// Resync implements base.Filter: it ors the mirror into Redis.
func (s *Set) Resync(ctx context.Context) (gone bool, err error) {
	if s.Enter() != nil {
		return false, nil // dropped meanwhile
	}
	defer s.Use.RUnlock()
	// Unacknowledged items are new for the daemon that finds them in the set, and for no other:
	// their bits may have been lost.
	layers := s.layers()
	last := layers[len(layers)-1]
	held := last.byStripe(s.unacked.all())
	for _, l := range layers {
		buf := make([]byte, l.header.LargestStripe())
		for i := range l.keys {
			data := l.mirror.Stripe(i, buf)
			if l == last {
				for _, key := range held[i] {
					l.header.Set(data, key)
				}
			}
			data = trimZeroes(data)
			missing, err := s.putStripe(ctx, l, i, data, false)
			if err != nil {
				return gone, err
			}
			gone = gone || missing
		}
	}
	return gone, s.PublishUnacked(ctx, s.Servers.Admin)
}

// Reload implements base.Mirrored: for closed layers the mirror decides without asking Redis,
// so it must have what the others have put back into them, and what they know to be closed must
// be closed here. It adds no layer before the others have put everything back: that would learn a
// layer that lacks items. An open layer that is not mirrored whole is counted anew, as what was
// lost does not fill it any more.
func (s *Set) Reload(ctx context.Context) error {
	if s.Enter() != nil {
		return nil // dropped meanwhile
	}
	defer s.Use.RUnlock()
	layers := s.layers()
	for i, l := range layers {
		if i == len(layers)-1 && l.mirror.whole() {
			break
		}
		if err := s.read(ctx, l); err != nil {
			return err
		}
	}
	return s.followGrowth(ctx)
}

var zeroes [4096]byte

// trimZeroes cuts off the zeroes at the end, of which a sparse stripe has megabytes.
func trimZeroes(b []byte) []byte {
	for len(b) >= len(zeroes) && bytes.Equal(b[len(b)-len(zeroes):], zeroes[:]) {
		b = b[:len(b)-len(zeroes)]
	}
	return bytes.TrimRight(b, "\x00")
}
