package http_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// watched is a client that looks, while it is sent something, at how much is held.
type watched struct {
	*httptest.ResponseRecorder
	held func() (bodies, answers int64)
	most int64
}

func (w *watched) Write(b []byte) (int, error) {
	bodies, _ := w.held()
	w.most = max(w.most, bodies)
	return w.ResponseRecorder.Write(b)
}

// An answer counts while it is sent, as its client may read slowly. If there is no room for it, its body makes room.
func TestAnswersAreHeld(t *testing.T) {
	const n = 1 << 20
	for _, test := range []struct {
		limit      int64
		held, kept int64
	}{{2 * n, 2 * n, n}, {2*n - 1, n, 0}} {
		r := apitest.New(t, func(o *api.Options) { o.Limits.BodyBytes, o.Limits.HeldBytes = n, configs.Size(test.limit) })
		w := &watched{ResponseRecorder: httptest.NewRecorder(), held: r.API.Held}
		kept := r.API.SendOut(w, httptest.NewRequest(http.MethodPost, "/api/v1/filter", nil), n)
		if w.Body.Len() != n || w.most != test.held || int64(kept) != test.kept {
			t.Errorf("limit %d: sent %d, held %d, kept %d of the body, want %d, %d, %d", test.limit, w.Body.Len(), w.most, kept, n, test.held, test.kept)
		}
		r.AwaitNothingHeld()
	}
}

// A list of filters, too, counts while it is sent, unless it is short. Without room for it the call is refused.
func TestListsAreHeld(t *testing.T) {
	r := apitest.New(t)
	for i := 0; len(r.Do("GET", "/api/v1/filters", "").Body) <= api.FirstRead; i++ {
		if a := r.Put(fmt.Sprint("f", i), `{"kind":"exact"}`); a.Status != http.StatusCreated {
			t.Fatalf("%+v", a)
		}
	}
	w := &watched{ResponseRecorder: httptest.NewRecorder(), held: r.API.Held}
	r.API.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/filters", nil))
	if w.Code != http.StatusOK || w.most < int64(w.Body.Len()) {
		t.Errorf("status %d, sent %d, held %d", w.Code, w.Body.Len(), w.most)
	}
	r.AwaitNothingHeld()
	r.Restart(func(o *api.Options) { o.Limits.HeldBytes = api.FirstRead })
	if a := r.Do("GET", "/api/v1/filters", ""); a.Status != http.StatusServiceUnavailable || a.Problem(t).ErrorCode != problem.Overloaded {
		t.Errorf("without room: %d", a.Status)
	}
}
