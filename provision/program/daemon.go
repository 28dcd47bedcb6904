package program

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Daemon is a running daemon of a program, to be called over HTTP.
type Daemon interface {
	// Host is the name of its host in the inventory.
	Host() string
	// Call sends a request with the host's own token; body is JSON, "" for none. An
	// answer with any status is not an error.
	Call(ctx context.Context, method, path, body string) (Answer, error)
}

// Answer is the response to a call.
type Answer struct {
	Status int
	Body   string // at most 16 MiB of it: metrics of a thousand filters are 2 MiB
}

// Problem is the error for an answer other than 200.
type Problem struct {
	Status int
	Code   string // error_code of problem+json, "" if the answer is another text
	text   string
}

func (p *Problem) Error() string { return p.text }

// Problem returns the answer as an error; call names it for people: "GET /readyz".
func (a Answer) Problem(call string) error {
	var told struct {
		Detail string `json:"detail"`
		Code   string `json:"error_code"`
	}
	p := &Problem{Status: a.Status}
	if json.Unmarshal([]byte(a.Body), &told) == nil && told.Code != "" {
		p.Code = told.Code
		p.text = fmt.Sprintf("%s: %d %s: %s", call, a.Status, told.Code, told.Detail)
	} else {
		p.text = fmt.Sprintf("%s: %d %s: %s", call, a.Status, http.StatusText(a.Status), a.Short())
	}
	return p
}

// Short returns the beginning of the body, in one line.
func (a Answer) Short() string {
	text := strings.Join(strings.Fields(a.Body), " ")
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return text
}
