package http_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
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
		r := apitest.New(t, func(o *api.Options) { o.Limits.BodyBytes, o.Limits.HeldBytes = n, test.limit })
		w := &watched{ResponseRecorder: httptest.NewRecorder(), held: r.API.Held}
		kept := r.API.SendOut(w, httptest.NewRequest(http.MethodPost, "/api/v1/filter", nil), n)
		if w.Body.Len() != n || w.most != test.held || int64(kept) != test.kept {
			t.Errorf("limit %d: sent %d, held %d, kept %d of the body, want %d, %d, %d", test.limit, w.Body.Len(), w.most, kept, n, test.held, test.kept)
		}
		r.AwaitNothingHeld()
	}
}
