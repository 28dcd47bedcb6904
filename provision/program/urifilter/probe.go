package urifilter

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

// patience is how long the command line on a host may take for one request.
const patience = 5 * time.Second

// A health check asks a filter of its own, in which items expire, so that it leaves nothing in the
// filters of users. Daemons that share a store share it.
const (
	ownFilter  = "toolkit-probe"
	ownExpires = 60 // seconds
)

// errUnmade means that a daemon makes no filter for health checks.
var errUnmade = errors.New("it makes no filter " + ownFilter + " for a check, and is only asked what it would answer")

// caller asks a daemon.
type caller interface {
	// make makes the filter of the health checks, if it does not exist. The error is errUnmade if the
	// daemon refuses that and may be sound all the same: its filters have another owner, or no room.
	make(ctx context.Context) error
	// ask asks whether an item is new; with remember it is not new the next time.
	ask(ctx context.Context, filter, item string, remember bool) (isNew bool, err error)
}

// prove makes the daemon do its work: an item that nobody has asked for is new, and the second time
// it is not. If the daemon makes no filter for that, it is only asked which items it would take for
// new in filter, one of the users'; "": it has none for plain items.
func prove(ctx context.Context, on string, c caller, filter string) error {
	err := c.make(ctx)
	if errors.Is(err, errUnmade) {
		step.Say(ctx, "%v", err)
		if filter == "" {
			return nil
		}
		return someNew(on, func(item string) (bool, error) { return c.ask(ctx, filter, item, false) })
	}
	if err != nil {
		return err
	}
	var item string
	if err := someNew(on, func(one string) (bool, error) {
		item = one
		return c.ask(ctx, ownFilter, one, true)
	}); err != nil {
		return err
	}
	again, err := c.ask(ctx, ownFilter, item, true)
	if err == nil && again {
		return errors.New("the filter reported the same item as new twice")
	}
	return err
}

// someNew asks for random items until one is new. A filter takes some new items for seen, but not
// three in a row.
func someNew(on string, ask func(item string) (bool, error)) error {
	for range 3 {
		isNew, err := ask("urifilter-toolkit-probe/" + on + "/" + rand.Text())
		if err != nil || isNew {
			return err
		}
	}
	return errors.New("the filter reports three random items as seen\nhint: it may be full: urifilter filters")
}

// overHTTP calls the daemon through a tunnel.
type overHTTP struct{ program.Daemon }

func (d overHTTP) make(ctx context.Context) error {
	path := "/api/v1/filters/" + ownFilter
	a, err := d.Call(ctx, http.MethodPut, path, fmt.Sprintf(`{"kind":%q,"expire":%d}`, expiringKind(), ownExpires))
	switch {
	case err != nil:
		return err
	case a.Status == http.StatusOK, a.Status == http.StatusCreated:
		return nil
	case slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusInsufficientStorage}, a.Status):
		return fmt.Errorf("%w: %w", errUnmade, a.Problem("PUT "+path))
	}
	return a.Problem("PUT " + path)
}

func (d overHTTP) ask(ctx context.Context, filter, item string, remember bool) (bool, error) {
	path := "/api/v1/check"
	if remember {
		path = "/api/v1/filter"
	}
	body, err := json.Marshal(map[string]any{"filter_typeid": filter, "uri_list": []string{item}})
	if err != nil {
		return false, err
	}
	a, err := d.Call(ctx, http.MethodPost, path, string(body))
	if err != nil {
		return false, err
	}
	if a.Status != http.StatusOK {
		return false, a.Problem("POST " + path)
	}
	var result struct {
		List  []string `json:"uri_list"`
		Total int      `json:"total"`
		New   []bool   `json:"new"`
	}
	err = json.Unmarshal([]byte(a.Body), &result)
	switch {
	case err == nil && !remember && len(result.New) == 1:
		return result.New[0], nil
	case err == nil && remember && result.Total == 1 && len(result.List) < 2:
		return len(result.List) == 1 && result.List[0] == item, nil
	}
	return false, fmt.Errorf("POST %s: not an answer of urifilter: %s", path, a.Short())
}

// onHost calls the daemon with the release's own command line, on a host that opens no tunnels.
type onHost struct {
	host.Host
	path, url, token string
}

func (h onHost) make(ctx context.Context) error {
	_, err := h.run(ctx, "", "filters", "create", ownFilter, "--kind", expiringKind(), "--expire", fmt.Sprint(ownExpires), "--server", h.url)
	if errors.As(err, new(*host.CommandError)) {
		return fmt.Errorf("%w: %w", errUnmade, err) // what is wrong with the daemon itself, the question shows
	}
	return err
}

func (h onHost) ask(ctx context.Context, filter, item string, remember bool) (bool, error) {
	verb := "check"
	if remember {
		verb = "filter"
	}
	out, err := h.run(ctx, item+"\n", verb, "--server", h.url, "--type", filter, "--timeout", patience.String(), "-")
	return strings.TrimSpace(out.Stdout) == item, err
}

func (h onHost) run(ctx context.Context, input string, args ...string) (host.Output, error) {
	script := "read -r URIFILTER_TOKEN; export URIFILTER_TOKEN\nexec " + host.Quote(h.path) + " " + host.Words(args...)
	return h.Run(ctx, host.Command{Script: script, Stdin: bytes.NewReader([]byte(h.token + "\n" + input)), Watch: args[0] == "check"})
}

// expiringKind is the kind of filters whose items expire.
func expiringKind() string {
	kinds := configs.Kinds()
	return kinds[slices.IndexFunc(kinds, func(k configs.Kind) bool { return configs.Expires(k.Name) })].Name
}
