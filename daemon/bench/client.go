package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/load/lean"
)

// client sends batches over one connection.
type client struct {
	conn    *lean.Conn
	request []byte        // header and body, changed in place
	digits  [batch][]byte // of each URL, within request
	next    uint64
	answer  []byte
	fresh   int    // new items in each batch
	commit  []byte // if batches are reserved: header and body of the commit, changed in place
	sent    bool   // a batch was sent: from then on just fresh of each are new
}

func (c *client) Close() error { return c.conn.Close() }

// dial makes a client whose batches have fresh new items each; the others repeat those of the
// batch before, in turn.
func dial(addr string, from uint64, fresh int) (*client, error) {
	return dialCall(addr, "filter", "", from, fresh)
}

// dialReserving is like dial, but each batch is reserved, and then committed as a whole.
func dialReserving(addr string, from uint64, fresh int) (*client, error) {
	c, err := dialCall(addr, "reserve", `"lease":600,`, from, fresh)
	if err == nil {
		body := `{"filter_typeid":1,"reservation":"0123456789abcdef0123456789abcdef"}`
		c.commit = post(addr, "commit", body)
	}
	return c, err
}

// post returns the header and body of a call.
func post(addr, call, body string) []byte {
	return fmt.Appendf(nil, "POST /api/v1/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", call, addr, len(body), body)
}

// dialCall makes a client that sends its batches to a call, with more members before the list.
func dialCall(addr, call, more string, from uint64, fresh int) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	body.WriteString(`{"filter_typeid":1,` + more + `"uri_list":[`)
	for i := range batch {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, "%q", urlPattern)
	}
	body.WriteString(`]}`)
	c := &client{conn: lean.New(conn), next: from, fresh: fresh}
	c.request = post(addr, call, body.String())
	rest := c.request
	for i := range c.digits {
		at := bytes.Index(rest, []byte("0123456789abcdef"))
		c.digits[i] = rest[at : at+16]
		rest = rest[at+16:]
	}
	return c, nil
}

// send posts a batch, whose last items repeat the new ones of the batch before as often as
// needed, and reads the answer, which it checks by its totals.
func (c *client) send() error {
	for i := c.fresh; i < batch; i++ {
		copy(c.digits[i], c.digits[i%c.fresh])
	}
	for i := range c.fresh {
		putHex(c.digits[i], c.next+uint64(i))
	}
	c.next += uint64(c.fresh)
	if err := c.exchange(c.request); err != nil {
		return err
	}
	end := c.answer[max(0, len(c.answer)-150):] // it may say that the filter is over its capacity
	if !bytes.Contains(end, []byte(`"total":1000,`)) {
		return fmt.Errorf("an answer that ends in %q", end)
	}
	if c.commit == nil {
		return nil
	}
	const member = `"reservation":"`
	at := bytes.LastIndex(c.answer, []byte(member))
	if at < 0 {
		return fmt.Errorf("an answer without a reservation, which ends in %q", end)
	}
	at += len(member)
	copy(c.commit[len(c.commit)-len(`0123456789abcdef0123456789abcdef"}`):], c.answer[at:at+32])
	if err := c.exchange(c.commit); err != nil {
		return err
	}
	if want := fmt.Sprintf(`{"done":%d,`, c.fresh); c.sent && !bytes.HasPrefix(c.answer, []byte(want)) {
		return fmt.Errorf("%s, want %s", c.answer, want)
	}
	c.sent = true
	return nil
}

// exchange sends a request and reads the answer.
func (c *client) exchange(request []byte) error {
	a, err := c.conn.Exchange(request)
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return fmt.Errorf("status %d: %s", a.Status, a.Body)
	}
	c.answer = a.Body
	return nil
}
