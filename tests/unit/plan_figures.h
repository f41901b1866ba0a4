/* Published measurements that the planner is checked against: CM-DARE's models, checkpoints and cluster speeds
 * (means of the authors' raw data), and ICAC'19's costs. Historical machines and asynchronous training. */
#ifndef LEAT_TESTS_PLAN_FIGURES_H
#define LEAT_TESTS_PLAN_FIGURES_H

#include <stddef.h>

#define FIGURE_MODELS 16

static const struct figure_model {
    const char *name;
    double gflops; /* a step */
    double parameters;
    double tensors;
    double k80_s;
    double p100_s;
    double checkpoint_mb;
    double checkpoint_s;
} figure_models[FIGURE_MODELS] = {
    {"ResNet-15", 0.631, 693818, 50, .1058, .0406, 6.27, 3.56},
    {"ResNet-32", 1.659, 1857722, 104, .2179, .0826, 15.99, 3.38},
    {"custom 1", 0.860, 1063226, 62, .1317, .0582, 9.26, 3.27},
    {"custom 2", 1.088, 1211194, 74, .1550, .0689, 10.57, 3.15},
    {"custom 3", 1.543, 1451706, 98, .2038, .0859, 12.78, 3.24},
    {"custom 4", 2.344, 2633658, 140, .2912, .1186, 22.45, 3.46},
    {"custom 5", 2.916, 3391034, 170, .3483, .1404, 28.70, 3.80},
    {"custom 6", 3.944, 4610362, 224, .4475, .1910, 38.85, 3.84},
    {"custom 7", 4.971, 5718842, 278, .5612, .2363, 48.15, 3.99},
    {"custom 8", 5.882, 6421306, 326, .6583, .2732, 54.26, 4.10},
    {"shake 16", 0.664, 737418, 210, .2321, .1292, 9.57, 3.46},
    {"shake small", 2.587, 2926986, 216, .3915, .1450, 26.39, 3.65},
    {"shake 48", 5.768, 6568282, 216, .6087, .2360, 54.19, 4.32},
    {"shake 64", 10.208, 11661610, 216, .7883, .3136, 93.33, 5.01},
    {"shake 80", 15.907, 18206970, 216, 1.2042, .4163, 143.01, 5.31},
    {"shake big", 22.865, 26204362, 216, 1.4059, .4927, 204.04, 6.64},
};

#define FIGURE_CLUSTERS 8

/* Steps a second of 1 … 8 asynchronous workers with one parameter server. */
static const struct figure_cluster {
    const char *model;
    const char *gpu;
    double speed[8];
} figure_clusters[FIGURE_CLUSTERS] = {
    {"ResNet-15", "K80", {9.73, 18.31, 27.34, 36.88, 46.20, 56.79, 61.70, 72.60}},
    {"ResNet-15", "P100", {20.87, 46.19, 59.28, 76.20, 89.41, 92.93, 92.88, 103.17}},
    {"ResNet-32", "K80", {4.46, 8.69, 13.26, 18.08, 22.46, 26.75, 31.19, 35.45}},
    {"ResNet-32", "P100", {11.38, 22.36, 34.58, 40.72, 44.51, 44.22, 46.68, 42.97}},
    {"ShakeShake-small", "K80", {2.53, 5.07, 7.61, 10.05, 12.58, 15.02, 17.38, 19.81}},
    {"ShakeShake-small", "P100", {6.72, 13.62, 19.52, 24.80, 27.05, 27.44, 28.28, 26.95}},
    {"ShakeShake-big", "K80", {.68, 1.34, 2.05, 2.64, 3.32, 3.97, 4.36, 5.01}},
    {"ShakeShake-big", "P100", {2.10, 3.96, 4.93, 6.02, 6.14, 5.99, 4.92, 6.52}},
};

#define FIGURE_COSTS 11

/* ICAC'19: a CIFAR-10 ResNet for 64,000 steps. */
static const struct figure_cost {
    const char *gpu;
    unsigned workers;
    int transient;
    double hours;
    double usd;
    double accuracy;
    double usd_per_s; /* one worker */
} figure_costs[FIGURE_COSTS] = {
    {"K80", 1, 0, 3.911, 2.83, 93.07, 2.0083e-4}, {"K80", 2, 0, 1.992, 3.17, 91.90, 2.0083e-4},
    {"K80", 4, 0, .995, 3.02, 91.20, 2.0083e-4},  {"K80", 8, 0, .508, 3.01, 88.40, 2.0083e-4},
    {"K80", 2, 1, 2.100, 1.37, 89.4, 7.1e-5},     {"K80", 4, 1, 1.042, 1.15, 91.26, 7.1e-5},
    {"K80", 8, 1, .511, 1.115, 88.79, 7.1e-5},    {"P100", 1, 1, 1.505, .83, 93.11, 1.53e-4},
    {"V100", 1, 1, 1.232, 1.06, 92.98, 2.39e-4},  {"P100", 4, 1, .470, 1.10, 91.35, 1.53e-4},
    {"V100", 4, 1, .433, 1.55, 91.04, 2.39e-4},
};

#define FIGURE_SERVER_USD_PER_S 3.97e-5 /* the parameter server; a single worker needs none */

/* Share of transient machines revoked within 24 h, and of those in the first hour. */
static const struct figure_life {
    const char *gpu;
    const char *region;
    double day;
    double first_hour;
} figure_lives[] = {
    {"K80", "us-central", .56, .46},  {"K80", "us-west", .23, .46},     {"K80", "europe", .67, .46},
    {"K80", "us-east", .47, .46},     {"P100", "us-east", .70, .29},    {"P100", "europe", .27, .29},
    {"P100", "us-central", .53, .29}, {"P100", "us-west", .67, .29},    {"V100", "europe", .43, .55},
    {"V100", "asia", .47, .55},       {"V100", "us-central", .67, .55}, {"V100", "us-west", .73, .55},
};
#define FIGURE_LIVES (sizeof figure_lives / sizeof *figure_lives)

/* Throughput of synchronous training on 1, 4, 8 and 16 GPUs of one machine, as published in the README files of
 * NVIDIA's DeepLearningExamples (DGX A100, DGX-1 and DGX-2 V100; read 2026-11): every table found there with 1, 4 and 8
 * GPUs and the same work for each of them. Not here: those whose GPUs accumulate fewer batches the more there are
 * (FastPitch, QuartzNet, GNMT), and BERT's of 2019, whose speeds of 8 GPUs are exactly twice those of 4. Gradient sizes
 * are estimates from parameter counts. Batches in the unit of the speed: 8,000 audio samples a clip, about 566 mel
 * frames, 192 and 384 tokens a sequence. The first word is the family: tables of one are left out together. */
static const struct figure_ring {
    const char *name;
    double gradient_bytes;
    double batch;    /* of one GPU */
    double speed[4]; /* samples or tokens a second; 0: not published */
} figure_rings[] = {
    {"Transformer A100 TF32", 852e6, 10240, {51057, 179245, 347936, 0}},
    {"Transformer A100 AMP", 426e6, 10240, {82059, 286081, 551599, 0}},
    {"Transformer V100 FP32", 852e6, 2560, {8742, 30204, 59316, 0}},
    {"Transformer V100 AMP", 426e6, 5120, {32942, 109726, 214656, 0}},
    {"Transformer DGX-2 FP32", 852e6, 5120, {9827, 35216, 68929, 136253}},
    {"Transformer DGX-2 AMP", 426e6, 10240, {39911, 137703, 267815, 517227}},
    {"SSD A100 TF32, 64", 92e6, 64, {364.3, 1432.7, 2838.8, 0}},
    {"SSD A100 AMP, 64", 92e6, 64, {662.9, 2581.2, 5252.8, 0}},
    {"SSD A100 TF32, 128", 92e6, 128, {377.2, 1493.1, 2967.2, 0}},
    {"SSD A100 AMP, 128", 92e6, 128, {724.4, 2885.6, 5734.0, 0}},
    {"SSD V100 FP32", 92e6, 32, {107.2, 419.5, 840.4, 0}},
    {"SSD V100 AMP", 92e6, 32, {296.8, 1115.6, 2154.0, 0}},
    {"Tacotron 2 V100 AMP", 112e6, 72448, {20992, 74989, 140060, 0}},
    {"Tacotron 2 V100 FP32", 112e6, 36224, {12933, 46115, 88719, 0}},
    {"WaveGlow V100 AMP", 350e6, 80000, {81503, 275803, 583887, 0}},
    {"WaveGlow V100 FP32", 350e6, 32000, {36671, 124504, 264903, 0}},
    {"TXL base A100 TF32", 768e6, 6144, {41527, 153945, 305933, 0}},
    {"TXL base A100 AMP", 384e6, 6144, {59961, 225609, 449890, 0}},
    {"TXL large A100 TF32, 8", 1028e6, 3072, {14497, 53756, 106651, 0}},
    {"TXL large A100 AMP, 8", 514e6, 3072, {21554, 80226, 159185, 0}},
    {"TXL large A100 AMP, 16", 514e6, 6144, {25084, 95997, 191148, 0}},
    {"TXL base V100 FP32, 16", 768e6, 3072, {13981, 48893, 97005, 0}},
    {"TXL base V100 AMP, 16", 384e6, 3072, {26639, 92618, 170532, 0}},
    {"TXL base V100 AMP, 32", 384e6, 6144, {36692, 133838, 258648, 0}},
    {"TXL large V100 FP32, 2", 1028e6, 768, {3558, 12492, 24595, 0}},
    {"TXL large V100 AMP, 2", 514e6, 768, {6907, 22530, 40920, 0}},
    {"TXL large V100 AMP, 4", 514e6, 1536, {10210, 36340, 66716, 0}},
    {"TXL base DGX-2H FP32", 768e6, 3072, {16150, 58011, 114655, 222920}},
    {"TXL base DGX-2H AMP", 384e6, 3072, {32875, 113985, 223907, 414994}},
    {"TXL large DGX-2H FP32", 1028e6, 3072, {5169, 19691, 39157, 77568}},
    {"TXL large DGX-2H AMP", 514e6, 3072, {14787, 54207, 107073, 211387}},
    {"Jasper V100 FP32, 16", 1332e6, 16, {10, 38.79, 76.64, 0}},
    {"Jasper V100 AMP, 16", 666e6, 16, {29.63, 106.67, 209.84, 0}},
    {"Jasper V100 AMP, 32", 666e6, 32, {35.16, 134.74, 263.92, 0}},
    {"Jasper V100-32 FP32, 32", 1332e6, 32, {12.26, 48.67, 95.88, 0}},
    {"Jasper V100-32 AMP, 32", 666e6, 32, {34.04, 131.96, 253.47, 0}},
    {"Jasper V100-32 AMP, 64", 666e6, 64, {41.03, 159.01, 312.20, 0}},
    {"Jasper DGX-2 FP32, 32", 1332e6, 32, {8.12, 32.16, 63.68, 124.88}},
    {"Jasper DGX-2 AMP, 32", 666e6, 32, {24.24, 92.09, 181.56, 275.67}},
    {"Jasper DGX-2 AMP, 64", 666e6, 64, {29.22, 114.29, 222.61, 414.57}},
    {"MaskRCNN V100 FP32, 2", 177e6, 2, {8.47, 30.23, 56.35, 0}},
    {"MaskRCNN V100 AMP, 2", 88e6, 2, {10.77, 36.88, 70.45, 0}},
    {"MaskRCNN V100 FP32, 4", 177e6, 4, {9.29, 34.07, 62.7, 0}},
    {"MaskRCNN V100 AMP, 4", 88e6, 4, {12.73, 44.95, 82.9, 0}},
    {"MaskRCNN V100-32 FP32, 4", 177e6, 4, {9.06, 32.87, 62.93, 0}},
    {"MaskRCNN V100-32 AMP, 4", 88e6, 4, {13.14, 50.70, 82.30, 0}},
    {"MaskRCNN V100-32 FP32, 8", 177e6, 8, {9.35, 33.38, 71.85, 0}},
    {"MaskRCNN V100-32 AMP, 8", 88e6, 8, {13.05, 46.69, 87.10, 0}},
    {"MaskRCNN V100-32 AMP, 16", 88e6, 16, {13.82, 48.41, 89.33, 0}},
    {"RN50-MXNet A100 AMP", 51e6, 256, {2180, 8587, 16925, 0}},
    {"RN50-MXNet A100 TF32", 102e6, 256, {1022, 4035, 8001, 0}},
    {"RN50-MXNet V100 AMP", 51e6, 192, {1376, 5357, 10723, 0}},
    {"RN50-MXNet V100 FP32", 102e6, 96, {384, 1513, 3005, 0}},
    {"RN50-MXNet DGX-2 AMP", 51e6, 256, {1492, 5726, 11368, 21484}},
    {"RN50-MXNet DGX-2 FP32", 102e6, 128, {417, 1623, 3223, 6338}},
};

/* One V100 and one A100 with mixed precision, samples or tokens a second (the same source, every pair found). Batches
 * are those that each card was published with, often larger on the A100. Not here: DGX-2H, whose V100 is a faster one.
 */
static const struct figure_transfer {
    const char *family;
    const char *model;
    const char *to;
    double v100;
    double a100;
} figure_transfers[] = {
    {"ResNet", "ResNet-50", "A100-80GB", 1200, 2470},
    {"ResNet", "ResNet-50, MXNet", "A100-80GB", 1376, 2180},
    {"SE-ResNeXt", "SE-ResNeXt-101", "A100-80GB", 443, 855},
    {"Transformer", "Transformer", "A100", 32942, 82059},
    {"SSD", "SSD, batch 64", "A100", 296.8, 662.9},
    {"SSD", "SSD, batch 128", "A100", 296.8, 724.4},
    {"TXL", "Transformer-XL", "A100", 36692, 59961},
    {"FastPitch", "FastPitch", "A100-80GB", 63986, 101730},
    {"EfficientNet", "EfficientNet-B0", "A100-80GB", 1301, 2489},
    {"EfficientNet", "EfficientNet-B4", "A100-80GB", 204, 331},
    {"EfficientNet", "wide-SE-B0", "A100-80GB", 1299, 2512},
};
#define FIGURE_TRANSFERS (sizeof figure_transfers / sizeof *figure_transfers)

/* Lives of transient machines as two studies saw them: raw times of ICAC'19 (February 2019; taken before their maximum
 * life of a day, of how many), and shares taken within a day of CM-DARE (a year later). */
static const struct figure_study {
    const char *gpu;
    const char *region;
    unsigned taken;
    unsigned machines;
    double day; /* the other study's share */
} figure_studies[] = {
    {"K80", "europe-west1", 6, 16, .67},  {"K80", "us-central1", 14, 16, .56},  {"K80", "us-east1", 0, 16, .47},
    {"K80", "us-west1", 0, 16, .23},      {"P100", "europe-west1", 3, 10, .27}, {"P100", "us-central1", 0, 10, .53},
    {"P100", "us-east1", 1, 10, .70},     {"P100", "us-west1", 4, 10, .67},     {"V100", "asia-east1", 3, 19, .47},
    {"V100", "europe-west4", 2, 19, .43}, {"V100", "us-central1", 0, 10, .67},
};
#define FIGURE_STUDIES (sizeof figure_studies / sizeof *figure_studies)

#define FIGURE_RINGS (sizeof figure_rings / sizeof *figure_rings)
static const double figure_ring_gpus[4] = {1, 4, 8, 16};

#endif
