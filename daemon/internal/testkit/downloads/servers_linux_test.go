package downloads

import (
	"math/rand/v2"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// away is how long a server may be gone.
const away = 4 * time.Second

// redisServer restarts empty.
type redisServer struct{ *redistest.Server }

func (f *fleet) startRedis() {
	r := redisServer{redistest.Start(f.t)}
	f.env = append(f.env, "URIDOWNLOADER_REDIS_URL=redis://"+r.Addr)
	f.victims = append(f.victims, r)
}

func (redisServer) name() string { return "redis" }

func (r redisServer) strike(_ *fleet, random *rand.Rand) {
	r.Kill()
	time.Sleep(rand64(random, away))
	r.Run()
}

// mongoServer restarts with its data. The best server available is FerretDB behind turns, see mongotest.
type mongoServer struct{ *mongotest.Server }

func (f *fleet) startMongoDB() {
	s := mongoServer{mongotest.New(f.t, mongotest.Options{})}
	f.env = append(f.env, "URIDOWNLOADER_STORE=mongodb", "URIDOWNLOADER_MONGODB_URI="+mongotest.NewTurns(f.t, s.Addr()).URI())
	f.victims = append(f.victims, s)
}

func (mongoServer) name() string { return "mongodb" }

func (s mongoServer) strike(_ *fleet, random *rand.Rand) {
	s.Kill()
	time.Sleep(rand64(random, away))
	s.Restart()
}

func rand64(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}
