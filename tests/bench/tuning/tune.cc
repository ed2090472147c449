#include <any>
#include <sstream>
#include <gtest/gtest.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <optional>
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#define private public
#include "tests/networks/scenarios.h"
#undef private
#include "pipeline/transport/rc_queue_pair.h"
using namespace uroce;
using namespace uroce::networks;
static std::optional<congestion::Settings> SettingsOf(const std::string& text) {
  std::vector<std::string> words = absl::StrSplit(text, ',');
  congestion::Profile profile;
  if (!congestion::ParseProfile(words[0], profile)) return std::nullopt;
  auto settings = congestion::DefaultsOf(profile);
  for (size_t i = 1; i < words.size(); ++i) {
    std::pair<std::string, std::string> pair = absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    auto* p = congestion::FindParameter(pair.first);
    uint32_t value = 0;
    if (!p || !absl::SimpleAtoi(pair.second, &value)) return std::nullopt;
    p->of(settings) = value;
  }
  return settings;
}
static void Trace(const NetworkConfig& config, uint32_t n, int ms) {
  NetworkBed bed(config); std::vector<Flow*> flows;
  for (uint32_t i=1;i<=n;i++){ flows.push_back(&bed.Connect(i,0,64)); flows.back()->KeepPosted(64,16384);}
  bed.Run(Nanos(int64_t{ms}*1000000));
  for(auto*f:flows)f->ResetCounts();
  bed.Run(Nanos(10000000));
  for (auto* f: flows) { const auto& qp=*f->from_.qp; const auto* d=qp.core().reliable().window().delay(); const auto* p=qp.flow().rate.point();
    printf("w %.3f delay %.1f base %.1f target %.1f gap %.1f got %.0f KB rate %.2f cnps %u\n", d->milli_packets()/1e3, d->delay().count()/1e3, d->base().count()/1e3, d->Target(config.settings.delay).count()/1e3, d->gap().count()/1e3, f->completed_bytes()/1e3, p? p->rate_bps()/1e9:0.0, qp.flow().cnps_handled); }
  for (int i=0;i<40;i++){ bed.Run(Nanos(5000)); printf("%llu ",(unsigned long long)bed.LinkTo(0).queue_bytes()/1000);} printf("\n");
  for (int i=0;i<40;i++){ bed.Run(Nanos(5000)); printf("%.3f ",flows[0]->from_.qp->core().reliable().window().delay()->milli_packets()/1e3);} printf("\n");
}
static std::vector<uint32_t> List(const char* t) {
  std::vector<uint32_t> out;
  for (auto w : absl::StrSplit(t, ',')) { uint32_t v=0; if(absl::SimpleAtoi(w,&v)) out.push_back(v);} return out;
}
// tune PROFILE what=incast,beside,lot,go,slow,turns kinds=mu l rates=10,25,100 n=2,4
int main(int argc, char** argv) {
  std::string profile="delay", what="ib", kinds="mu"; std::vector<uint32_t> rates{10,25,100}, ns{2,4,8,16,64};
  uint32_t turn=1, warm=20;
  for (int i=1;i<argc;i++){ std::string a=argv[i];
    if(a.rfind("what=",0)==0) what=a.substr(5); else if(a.rfind("kinds=",0)==0) kinds=a.substr(6);
    else if(a.rfind("rates=",0)==0) rates=List(a.c_str()+6); else if(a.rfind("n=",0)==0) ns=List(a.c_str()+2);
    else if(a.rfind("turn=",0)==0) turn=atoi(a.c_str()+5); else if(a.rfind("warm=",0)==0) warm=atoi(a.c_str()+5); else profile=a; }
  auto s=SettingsOf(profile); if(!s){fprintf(stderr,"bad\n");return 2;}
  for(char k: kinds){ Kind kind = k=='m'?Kind::kMarked:k=='u'?Kind::kUnmarked:k=='l'?Kind::kLossless:Kind::kSlow;
   for(uint32_t r: rates){
    auto star=[&](uint32_t n){auto c=Star(kind,n,*s); if(kind!=Kind::kSlow) {c.link.rate_bps=uint64_t{r}*1000000000; } c.turn=Nanos(turn*1000); return c;};
    for(char w: what){
     if(w=='t') for(uint32_t n: ns) Trace(star(n+1),n,warm);
     if(w=='i') for(uint32_t n: ns){ Incast in{.senders=n}; in.warm=Nanos(int64_t{warm}*1000000); auto sh=RunIncast(star(n+1),in);
       printf("%c %3uG %2u:1 jain %.3f use %.3f lost %.4f%% q99 %4llu KB peak %4llu%s\n",k,r,n,sh.jain,sh.use,sh.lost*100,(unsigned long long)sh.queue_99/1000,(unsigned long long)sh.queue_peak/1000,
        (sh.jain<(k=='u'?.90:.97)||sh.use<(k=='u'?.90:.95)||sh.lost>(k=='u'?.001:0)||sh.queue_99>200000)?"   <<<":""); fflush(stdout);}
     if(w=='b') for(uint32_t b:{64u,4096u}){ auto c=star(10); auto al=RunBeside(c,0,b); auto be=RunBeside(c,8,b);
       printf("%c %3uG beside8 %4u B alone %.1f %.1f beside %.1f %.1f (%.1fx)%s\n",k,r,b,al.p50_us,al.p99_us,be.p50_us,be.p99_us,be.p99_us/al.p99_us,be.p99_us>5*al.p99_us?"   <<<":"");fflush(stdout);}
     if(w=='l'){auto sh=RunParkingLot(star(1),3); printf("%c %3uG lot jain %.3f use %.3f lost %.4f%%\n",k,r,sh.jain,sh.use,sh.lost*100);fflush(stdout);}
     if(w=='g'){ for(auto& sh: RunComingAndGoing(star(5),4,Nanos(20'000'000))) printf("%c %3uG go jain %.3f use %.3f lost %.4f%%\n",k,r,sh.jain,sh.use,sh.lost*100);fflush(stdout);}
     if(w=='r'){ for(uint32_t n: ns){ auto sh=RunIncast(star(n+1),{.senders=n,.reads=true}); printf("%c %3uG %u readers jain %.3f use %.3f lost %.4f%% q99 %llu KB\n",k,r,n,sh.jain,sh.use,sh.lost*100,(unsigned long long)sh.queue_99/1000);fflush(stdout);}}
     if(w=='s'){ auto c=Star(Kind::kSlow,5,*s); c.turn=Nanos(100'000); for(uint32_t n:{1u,4u}){auto sh=RunIncast(c,{.senders=n,.warm=Nanos(8'000'000'000),.measured=Nanos(1'000'000'000)}); printf("slow %u:1 jain %.3f use %.3f lost %.4f%% q99 %llu KB\n",n,sh.jain,sh.use,sh.lost*100,(unsigned long long)sh.queue_99/1000);fflush(stdout);}}
     if(w=='h'){ for (const auto& [runs, waits] : {std::pair{3'000, 3'000}, {100, 300}, {3'000, 18'000}}) for(uint32_t n:{1u,8u}){ auto c=star(n+1); c.cpu={.runs=Nanos(runs*1000),.waits=Nanos(waits*1000)}; auto sh=RunIncast(c,{.senders=n,.warm=Nanos(200'000'000),.measured=Nanos(400'000'000)}); printf("%c %3uG host %u:1 %d/%d jain %.3f use %.3f lost %.4f%%\n",k,r,n,runs,waits,sh.jain,sh.use,sh.lost*100);fflush(stdout);}}
    }
   }
   if(kind==Kind::kSlow) continue;
  }
}
