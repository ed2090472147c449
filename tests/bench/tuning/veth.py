import sys
sys.path.insert(0,'/work/wt/cc/tests/e2e'); sys.path.insert(0,'/work/wt/cc/tests/bench')
from lab import VethLab
from programs import perftest
for r in range(2):
    for cc in ("cc=dcqcn","cc=delay","cc=delay,cc.base_target_delay=50","cc=delay,cc.base_target_delay=25"):
        lab=None
        try:
            lab=VethLab(9000, device="net_iface;iface=eth0,"+cc) if False else VethLab(9000, device="net_iface;iface=eth0,"+cc)
            print(cc, perftest(lab,"ib_write_bw","-s",65536,"-D",2,"--report_gbits",timeout_s=30)[-1][3], flush=True)
        except Exception as e: print(cc, "failed", str(e)[:300], flush=True)
        finally:
            if lab: lab.close()
