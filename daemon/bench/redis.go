package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// overRedis measures the filter call on a local Redis, beside what Redis itself does: one
// SETBIT for each bit, as in the design that this one replaces, and one BITFIELD for each
// item, which is the most that any daemon could get from it without a memory of its own.
func overRedis(s settings) error {
	addr := redistest.Start(s.stand).Addr
	t := report.Table{{"what", "connections", "items/s", "of one BITFIELD an item"}}
	var limit float64 // the first rate
	for _, c := range []struct {
		name   string
		render func(dst []byte, item uint64) []byte
		reply  int // lines in the reply to an item
	}{
		{"Redis alone: one BITFIELD of 8 bits an item, pipelined", bitfield, 9},
		{"Redis alone: one SETBIT a bit (14), pipelined", setbits, 14},
	} {
		var rates []float64
		for range s.runs {
			rate, err := pipelined(addr, s.duration, c.render, c.reply)
			if err != nil {
				return err
			}
			rates = append(rates, rate)
			s.out.Run(fmt.Sprintf("RedisAlone/replies=%d", c.reply), report.PerSecond("items", rate))
		}
		rate := report.Median(rates)
		limit = cmp.Or(limit, rate)
		t.Row(c.name, "1", report.Million(rate), fmt.Sprintf("%.1f", rate/limit))
	}
	err := duplicates(s, []string{addr}, "0", "Redis", 10_000_000, func(share int, rates []float64) {
		for i, rate := range rates {
			t.Row(fmt.Sprintf("urifilter over HTTP, %d %% duplicates", share), fmt.Sprint(connections[i]), report.Million(rate), fmt.Sprintf("%.1f", rate/limit))
		}
	})
	if err != nil {
		return err
	}
	s.out.Table("redis", "Client, daemon and Redis on this machine, batches of 1,000", t)
	return nil
}

// duplicates measures how many items a second a daemon filters on Redis, with 50 % and 90 % duplicates and
// a mirror of at most so many bytes. It names the samples, and calls each with the medians, by connections.
func duplicates(s settings, redis []string, mirror, samples string, capacity int, each func(share int, rates []float64)) (err error) {
	srv, err := startServer(s, "always", "URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS="+strings.Join(redis, ","), "URIFILTER_REDIS_MIRROR_BYTES="+mirror)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	for _, share := range []int{50, 90} {
		one := turn{fmt.Sprintf("%s/duplicates=%d", samples, share), func(conns int) (measured, error) {
			if err := srv.emptyFilter(capacity); err != nil {
				return measured{}, err
			}
			return drive(srv.addr, conns, batch*(100-share)/100, s.duration)
		}}
		var rates []float64
		if err := s.inTurn([]turn{one}, func(_ int, all []runs) { rates = append(rates, all[0].rate()) }); err != nil {
			return err
		}
		each(share, rates)
	}
	return nil
}

const rawBits = 250_000_000 // about 10 M items at 25 bits

func bitfield(dst []byte, item uint64) []byte {
	dst = append(dst, "*34\r\n$8\r\nBITFIELD\r\n$3\r\nraw\r\n"...)
	for i := range uint64(8) {
		dst = append(dst, "$3\r\nSET\r\n$2\r\nu1\r\n"...)
		dst = bulk(dst, (item*0x9e3779b97f4a7c15+i*0xbf58476d1ce4e5b9)%rawBits)
		dst = append(dst, "$1\r\n1\r\n"...)
	}
	return dst
}

func setbits(dst []byte, item uint64) []byte {
	for i := range uint64(14) {
		dst = append(dst, "*4\r\n$6\r\nSETBIT\r\n$3\r\nraw\r\n"...)
		dst = bulk(dst, (item*0x9e3779b97f4a7c15+i*0xbf58476d1ce4e5b9)%rawBits)
		dst = append(dst, "$1\r\n1\r\n"...)
	}
	return dst
}

func bulk(dst []byte, n uint64) []byte {
	text := strconv.FormatUint(n, 10)
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	dst = append(append(append(dst, '\r', '\n'), text...), '\r', '\n')
	return dst
}

// pipelined sends batches of 1,000 rendered items and reads their replies, line by line.
func pipelined(addr string, duration time.Duration, render func([]byte, uint64) []byte, lines int) (float64, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 256<<10)
	var request []byte
	item, done := uint64(time.Now().UnixNano()), 0
	start := time.Now()
	for time.Since(start) < duration {
		request = request[:0]
		for range batch {
			item++
			request = render(request, item)
		}
		failed := make(chan error, 1)
		go func() { // or both ends would wait with full buffers
			_, err := conn.Write(request)
			failed <- err
		}()
		for range batch * lines {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return 0, err
			}
			if bytes.HasPrefix(line, []byte("-")) {
				return 0, fmt.Errorf("redis: %s", line)
			}
		}
		if err := <-failed; err != nil {
			return 0, err
		}
		done += batch
	}
	return float64(done) / time.Since(start).Seconds(), nil
}
