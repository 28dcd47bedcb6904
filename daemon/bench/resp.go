package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// pipeline is how many commands of one item are sent without waiting.
const pipeline = 100

// overRESP measures the port for Redis clients, without fsync: lists of 1,000 items beside the same
// by HTTP, and commands of one item, in pipelines, beside a SETBIT of Redis, which does nothing but
// set a bit.
func overRESP(s settings) error {
	alone, port := redistest.Start(s.stand).Addr, testserver.Free(s.stand)
	srv, err := startServer(s, "none", "URIFILTER_RESP_LISTEN="+port)
	if err != nil {
		return err
	}
	const bloom, scaling = `{"id":1,"kind":"bloom","capacity":10000000,"error_rate":0.0001}`, `{"id":1,"kind":"scaling","capacity":10000000,"error_rate":0.0001}`
	// The first of each group is what the others are compared with.
	groups := [][]struct {
		name string
		spec string // of the filter; "": none
		addr string
		dial func(addr string, from uint64, fresh int) (sender, error)
	}{
		{
			{"JSON over HTTP, batches of 1,000", bloom, srv.addr, func(addr string, from uint64, fresh int) (sender, error) { return dial(addr, from, fresh) }},
			{"BF.MADD of 1,000 items, kind bloom", bloom, port, dialing(madd())},
			{"BF.MADD of 1,000 items, kind scaling, as BF.RESERVE makes it", scaling, port, dialing(madd())},
		},
		{
			{"redis-server: SETBIT, pipelines of 100", "", alone, dialing(singles("SETBIT", "raw", "10000000", "1"))},
			{"BF.ADD, pipelines of 100, kind bloom", bloom, port, dialing(singles("BF.ADD", "uri", urlPattern))},
			{"BF.ADD, pipelines of 100, kind scaling", scaling, port, dialing(singles("BF.ADD", "uri", urlPattern))},
		},
	}
	t := report.Table{{"what", "connections", "items/s", "of the first"}}
	for _, group := range groups {
		var turns []turn
		for _, c := range group {
			turns = append(turns, turn{"RESP/what=" + strings.ReplaceAll(c.name, ",", ""), func(conns int) (measured, error) {
				if c.spec != "" {
					if err := srv.remake(c.spec); err != nil {
						return measured{}, err
					}
				}
				return driveBy(c.dial, c.addr, conns, batch/2, s.duration)
			}})
		}
		err := s.inTurn(turns, func(conns int, all []runs) {
			for i, c := range group {
				t.Row(c.name, fmt.Sprint(conns), report.Million(all[i].rate()), fmt.Sprintf("%.2f", all[i].rate()/all[0].rate()))
			}
		})
		if err != nil {
			return err
		}
	}
	if err := srv.stop(); err != nil {
		return err
	}
	s.out.Table("resp", "Client and servers on this machine, without fsync, 66-byte URLs, half duplicates, capacity 10 M at 0.0001", t)
	return nil
}

// commands are what is sent for a batch: in so many pieces, each with an answer of known length.
type commands struct {
	text   []byte
	pieces int
	answer int    // bytes of the answer to a piece
	number string // what stands for the number of an item in text
}

func appendCommand(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}

func madd() commands {
	args := []string{"BF.MADD", "uri"}
	for range batch {
		args = append(args, urlPattern)
	}
	return commands{appendCommand(nil, args...), 1, len("*1000\r\n") + batch*len(":0\r\n"), urlPattern[digitsAt : digitsAt+16]}
}

// singles is a command for each item, whose number stands in its first argument with digits.
func singles(args ...string) commands {
	c := commands{pieces: batch / pipeline, answer: pipeline * len(":0\r\n"), number: "10000000"}
	if args[2] == urlPattern {
		c.number = urlPattern[digitsAt : digitsAt+16]
	}
	for range batch {
		c.text = appendCommand(c.text, args...)
	}
	return c
}

// respClient sends batches over one connection, like client.
type respClient struct {
	net.Conn
	digits [batch][]byte
	pieces [][]byte
	answer []byte
	next   uint64
	fresh  int
}

func dialing(of commands) func(addr string, from uint64, fresh int) (sender, error) {
	return func(addr string, from uint64, fresh int) (sender, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		c := &respClient{Conn: conn, answer: make([]byte, of.answer), next: from, fresh: fresh}
		text := bytes.Clone(of.text)
		for i, rest := 0, text; i < batch; i++ {
			at := bytes.Index(rest, []byte(of.number))
			c.digits[i] = rest[at : at+len(of.number)]
			rest = rest[at+len(of.number):]
		}
		for i := range of.pieces {
			n := len(text) / of.pieces // commands for one item are of one length
			c.pieces = append(c.pieces, text[i*n:(i+1)*n])
		}
		return c, nil
	}
}

func (c *respClient) put(dst []byte, n uint64) {
	if len(dst) == 16 {
		putHex(dst, n)
		return
	}
	putDecimal(dst, n*0x9e3779b97f4a7c15>>32) // the place of a bit, below 100 million
	if dst[0] == '0' {                        // a number of Redis begins with none
		dst[0] = '1'
	}
}

func (c *respClient) send() error {
	for i := c.fresh; i < batch; i++ {
		copy(c.digits[i], c.digits[i%c.fresh])
	}
	for i := range c.fresh {
		c.put(c.digits[i], c.next+uint64(i))
	}
	c.next += uint64(c.fresh)
	for _, piece := range c.pieces {
		if _, err := c.Write(piece); err != nil {
			return err
		}
		if _, err := io.ReadFull(c.Conn, c.answer[:1]); err != nil {
			return err
		}
		if c.answer[0] == '-' {
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			n, _ := c.Read(c.answer[1:])
			return fmt.Errorf("answer %q", c.answer[:1+n])
		}
		if _, err := io.ReadFull(c.Conn, c.answer[1:]); err != nil {
			return err
		}
		if !bytes.HasSuffix(c.answer, []byte("\r\n")) || bytes.Count(c.answer, []byte("\r\n:"))+1 < pipeline {
			return fmt.Errorf("answer %.100q", c.answer)
		}
	}
	return nil
}
